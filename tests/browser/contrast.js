// Elements whose text misses the contrast of WCAG AA against what lies behind it.
const parse = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length > 3 ? m : [...m, 1]; };
const lum = ([r, g, b]) => { const f = [r, g, b].map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
  return .2126 * f[0] + .7152 * f[1] + .0722 * f[2]; };
const back = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] === 1) return c; }
  return parse(getComputedStyle(document.body).backgroundColor); };
const bad = [];
for (const e of document.querySelectorAll('body *')) {
  if (e.closest('#timeline, svg, script, style, .skip') || !e.checkVisibility()) continue;
  if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
  const s = getComputedStyle(e), a = lum(parse(s.color)), b = lum(back(e));
  const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  const large = parseFloat(s.fontSize) >= 24 || (parseFloat(s.fontSize) >= 18.66 && Number(s.fontWeight) >= 700);
  if (ratio < (large ? 3 : 4.5)) bad.push(`${e.tagName}.${e.className} ${ratio.toFixed(2)} ${e.textContent.slice(0, 30)}`);
}
return bad.slice(0, 10);
