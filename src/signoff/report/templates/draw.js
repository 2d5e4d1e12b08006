(() => {
  const data = document.getElementById("timeline-data");
  const host = document.getElementById("timeline");
  if (!data || !host || !window.Bokeh) return;
  Bokeh.set_log_level("warn");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const swaps = {
    "#23282f": "#e4e7ea", "#5b6470": "#a4adb7", "#c9cfd6": "#3a424b", "#e6e9ed": "#262c33", "#eef1f4": "#1c2126",
    "#b3261e": "#ff8a80", "#1f5fa8": "#7db4f0", "#a4570a": "#f0a860", "#1d7a4d": "#6fcf97", "#7a3fa0": "#cfa0f0",
    "#0f7b83": "#5cc8d0", "#8d6b00": "#e0c060", "#a23a6b": "#f090b8", "#4a5568": "#a8b4c4"
  };
  let views = null;
  const draw = async () => {
    let text = data.textContent;
    if (dark.matches) for (const [light, deep] of Object.entries(swaps)) text = text.split(light).join(deep);
    if (views) views.clear();
    host.replaceChildren();
    views = await Bokeh.embed.embed_item(JSON.parse(text), host);
    document.documentElement.classList.add("drawn");
  };
  draw();
  dark.addEventListener("change", draw);
})();
