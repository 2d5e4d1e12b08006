/* A streaming chat server whose timing is exact, so that what a client reports can be compared with the truth.
 *
 *   cc -O2 -o paced paced.c
 *   ./paced PORT FIRST_US GAP_US TOKENS        PORT 0 picks a free one; the port is printed first
 *
 * Every POST is answered with a chunked event stream: the first chunk FIRST_US after the request's last byte was read,
 * then one every GAP_US, TOKENS in all, usage and [DONE] with the last. max_tokens in the request wins over TOKENS.
 * A GET is answered with a list of one model. Instants are planned from the request, never from the chunk before, so a
 * late chunk delays no other. On SIGINT or SIGTERM it prints its own lateness: a round in which the server was late
 * says nothing about a client. Linux only (epoll).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FDS_MAX = 65536, READ_BYTES = 65536, EVENTS = 256, TURN_SENDS = 256, BUCKETS = 20000, BUCKET_NS = 10000 };

struct stream {
    int fd;
    char *inbox;
    size_t used, room;
    int left;           /* chunks still to send; 0: idle */
    int total;
    uint64_t due;
    int place;          /* in the heap, from 1; 0: not in it */
};

static struct stream *streams[FDS_MAX];
static struct stream *heap[FDS_MAX + 1];
static int heap_size;
static uint64_t first_ns, gap_ns;
static int tokens_default;
static uint64_t requests, chunks, blocked, late_sum, late_max, late_counts[BUCKETS];
static volatile sig_atomic_t stopping;

static const char HEAD[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n";
static const char MODELS[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 58\r\n\r\n"
                             "{\"object\":\"list\",\"data\":[{\"id\":\"paced\",\"object\":\"model\"}]}";
static char token_chunk[512], last_chunk[1024];
static size_t token_bytes;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* a binary heap by due instant */

static void heap_put(int at, struct stream *s) {
    heap[at] = s;
    s->place = at;
}

static void heap_up(int at) {
    struct stream *s = heap[at];
    for (; at > 1 && heap[at / 2]->due > s->due; at /= 2)
        heap_put(at, heap[at / 2]);
    heap_put(at, s);
}

static void heap_down(int at) {
    struct stream *s = heap[at];
    for (int child; (child = 2 * at) <= heap_size; at = child) {
        if (child < heap_size && heap[child + 1]->due < heap[child]->due)
            child++;
        if (heap[child]->due >= s->due)
            break;
        heap_put(at, heap[child]);
    }
    heap_put(at, s);
}

static void heap_add(struct stream *s) {
    heap_put(++heap_size, s);
    heap_up(heap_size);
}

static void heap_remove(struct stream *s) {
    int at = s->place;
    if (at == 0)
        return;
    struct stream *last = heap[heap_size--];
    s->place = 0;
    if (last == s)
        return;
    heap_put(at, last);
    heap_up(at);
    heap_down(last->place);
}

/* writing */

static void drop(struct stream *s) {
    heap_remove(s);
    close(s->fd);
    streams[s->fd] = NULL;
    free(s->inbox);
    free(s);
}

static int put(struct stream *s, const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t taken = send(s->fd, bytes, count, MSG_NOSIGNAL);
        if (taken >= 0) {
            bytes += taken;
            count -= (size_t)taken;
        } else if (errno == EAGAIN) {
            blocked++;
            usleep(50); /* the client does not read: everybody waits, and the count says so */
        } else {
            return -1;
        }
    }
    return 0;
}

static size_t frame(char *out, size_t room, const char *event) {
    return (size_t)snprintf(out, room, "%zx\r\n%s\r\n", strlen(event), event);
}

static void build_chunks(void) {
    const char *event = "data: {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\","
                        "\"created\":1796000000,\"model\":\"paced\",\"choices\":[{\"index\":0,"
                        "\"delta\":{\"content\":\" word\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n";
    token_bytes = frame(token_chunk, sizeof token_chunk, event);
}

static size_t build_last(int total) {
    char event[512];
    size_t used = frame(last_chunk, sizeof last_chunk,
                        "data: {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\","
                        "\"created\":1796000000,\"model\":\"paced\",\"choices\":[{\"index\":0,"
                        "\"delta\":{\"content\":\" word\"},\"logprobs\":null,\"finish_reason\":\"length\"}]}\n\n");
    snprintf(event, sizeof event,
             "data: {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"choices\":[],"
             "\"usage\":{\"prompt_tokens\":8,\"total_tokens\":%d,\"completion_tokens\":%d}}\n\n",
             total + 8, total);
    used += frame(last_chunk + used, sizeof last_chunk - used, event);
    used += frame(last_chunk + used, sizeof last_chunk - used, "data: [DONE]\n\n");
    memcpy(last_chunk + used, "0\r\n\r\n", 5);
    return used + 5;
}

static void note_lateness(uint64_t late) {
    uint64_t bucket = late / BUCKET_NS;
    late_counts[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
    late_sum += late;
    late_max = late > late_max ? late : late_max;
    chunks++;
}

static void take_requests(struct stream *s);

static void send_due(struct stream *s) {
    note_lateness(now_ns() - s->due);
    if (--s->left > 0) {
        s->due += gap_ns;
        heap_down(s->place);
        if (put(s, token_chunk, token_bytes) != 0)
            drop(s);
        return;
    }
    heap_remove(s);
    if (put(s, last_chunk, build_last(s->total)) != 0)
        drop(s);
    else
        take_requests(s);
}

/* reading */

static long number_after(const char *from, size_t count, const char *name, long otherwise) {
    const char *end = from + count, *at = memmem(from, count, name, strlen(name));
    if (at == NULL)
        return otherwise;
    for (at += strlen(name); at < end && (*at == '"' || *at == ':' || *at == ' '); at++)
        ;
    return at < end && *at >= '0' && *at <= '9' ? atol(at) : otherwise;
}

static size_t content_length(const char *head, size_t count) {
    const char *end = head + count;
    for (const char *line = head; line != NULL && line < end; line = memchr(line, '\n', (size_t)(end - line))) {
        line += *line == '\n';
        if (end - line > 15 && strncasecmp(line, "content-length:", 15) == 0)
            return (size_t)atol(line + 15);
    }
    return 0;
}

/* Starts the next whole request of the inbox, unless one is being answered. */
static void take_requests(struct stream *s) {
    while (s->left == 0) {
        char *end = memmem(s->inbox, s->used, "\r\n\r\n", 4);
        if (end == NULL)
            return;
        size_t head = (size_t)(end - s->inbox) + 4, body = content_length(s->inbox, head);
        if (s->used < head + body)
            return;
        if (strncmp(s->inbox, "POST", 4) == 0) {
            requests++;
            s->total = (int)number_after(s->inbox + head, body, "\"max_tokens\"", tokens_default);
            s->left = s->total = s->total > 0 ? s->total : tokens_default;
            s->due = now_ns() + first_ns;
            heap_add(s);
            if (put(s, HEAD, sizeof HEAD - 1) != 0) {
                drop(s);
                return;
            }
        } else if (put(s, MODELS, sizeof MODELS - 1) != 0) {
            drop(s);
            return;
        }
        memmove(s->inbox, s->inbox + head + body, s->used - head - body);
        s->used -= head + body;
    }
}

static void receive(struct stream *s) {
    for (;;) {
        if (s->room - s->used < READ_BYTES) {
            s->room = 2 * s->room + READ_BYTES;
            s->inbox = realloc(s->inbox, s->room);
        }
        ssize_t count = recv(s->fd, s->inbox + s->used, s->room - s->used, 0);
        if (count > 0) {
            s->used += (size_t)count;
            continue;
        }
        if (count < 0 && errno == EAGAIN)
            break;
        drop(s);
        return;
    }
    take_requests(s);
}

static void accept_all(int listener, int poller) {
    int fd, one = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (fd >= FDS_MAX) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        streams[fd] = calloc(1, sizeof *streams[fd]);
        streams[fd]->fd = fd;
        struct epoll_event wanted = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(poller, EPOLL_CTL_ADD, fd, &wanted);
    }
}

static void serve(int listener) {
    struct epoll_event events[EVENTS];
    int poller = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLIN, .data.fd = listener};
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &wanted);
    while (!stopping) {
        uint64_t now = now_ns();
        for (int sent = 0; sent < TURN_SENDS && heap_size > 0 && heap[1]->due <= now; sent++, now = now_ns())
            send_due(heap[1]);
        uint64_t wait = 100000000u;
        if (heap_size > 0)
            wait = heap[1]->due > now ? heap[1]->due - now : 0; /* still behind: only look for requests */
        wait = wait < 100000000u ? wait : 100000000u;
        struct timespec timeout = {0, (long)wait};
        int count = epoll_pwait2(poller, events, EVENTS, &timeout, NULL);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            if (fd == listener)
                accept_all(listener, poller);
            else if (streams[fd] != NULL)
                receive(streams[fd]);
        }
    }
}

static double late_us_at(double share) {
    uint64_t seen = 0;
    for (int bucket = 0; bucket < BUCKETS; bucket++)
        if ((double)(seen += late_counts[bucket]) >= share * (double)chunks)
            return (bucket + 1) * (double)BUCKET_NS / 1e3;
    return 0;
}

static void on_signal(int number) {
    (void)number;
    stopping = 1;
}

int main(int count, char **words) {
    if (count != 5) {
        fprintf(stderr, "usage: %s PORT FIRST_US GAP_US TOKENS\n", words[0]);
        return 2;
    }
    first_ns = (uint64_t)atol(words[2]) * 1000u;
    gap_ns = (uint64_t)atol(words[3]) * 1000u;
    tokens_default = atoi(words[4]);
    build_chunks();
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(words[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(listener, (void *)&address, size) != 0 || listen(listener, 4096) != 0) {
        perror("paced: bind");
        return 1;
    }
    getsockname(listener, (void *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    serve(listener);
    printf("{\"requests\":%lu,\"chunks\":%lu,\"late_us_mean\":%.1f,\"late_us_p99\":%.1f,\"late_us_max\":%.1f,"
           "\"blocked\":%lu}\n",
           requests, chunks, chunks ? (double)late_sum / 1e3 / (double)chunks : 0.0, late_us_at(0.99),
           (double)late_max / 1e3, blocked);
    return 0;
}
