/* The library's loops over rows and bytes, compiled ahead of time by compile_loops.py and called by loops.py,
 * where each has a form in numpy or Python that gives the same answers.
 *
 * An array comes as its address and its shape, numbers as 64 bits. Nothing is allocated, nothing of libc is called: one
 * library serves every C library and Python of a platform. All machines that it is made for are little-endian or read
 * byte by byte here; numbers in files are taken apart by hand.
 *
 * Offsets come from Arrow and are trusted; whatever else bytes say is checked before it is followed.
 */

#include <stddef.h>
#include <stdint.h>

#define LOOP __attribute__((visibility("default"))) void
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t i64;

/* -1, 0, 1: how two byte strings compare. */
static int compare(const u8 *a, i64 a_size, const u8 *b, i64 b_size)
{
    i64 shared = MIN(a_size, b_size);
    for (i64 i = 0; i < shared; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return (a_size > b_size) - (a_size < b_size);
}

/* ---- Murmur: murmur.py says what it is ---- */

#define MULTIPLIER 0x5bd1e995u
#define LANES 8
#define KEPT_WORDS 64 /* mixed words of a key that are kept between its hashes; those behind are mixed anew */

static u32 mixed_word(const u8 *key, i64 word)
{
    const u8 *p = key + 4 * word;
    u32 k = (u32)p[0] | (u32)p[1] << 8 | (u32)p[2] << 16 | (u32)p[3] << 24;
    k *= MULTIPLIER;
    k ^= k >> 24;
    return k * MULTIPLIER;
}

static void mix_words(const u8 *key, i64 size, u32 *words, i64 apart)
{
    i64 kept = MIN(size >> 2, KEPT_WORDS);
    for (i64 word = 0; word < kept; word++)
        words[word * apart] = mixed_word(key, word);
}

/* The last one to three bytes: signed, as Java's are, the last one the low one. */
static u32 tail_of(const u8 *key, i64 size)
{
    u32 tail = 0;
    for (i64 back = size & 3; back > 0; back--)
        tail ^= (u32)(int32_t)(int8_t)key[size - back] << (8 * (back - 1));
    return tail;
}

static u32 finished(u32 h)
{
    h ^= h >> 13;
    h *= MULTIPLIER;
    return h ^ (h >> 15);
}

static u32 hash_of(const u8 *key, i64 size, const u32 *words, u32 seed)
{
    u32 h = seed ^ (u32)size;
    i64 word = 0;
    for (; word < MIN(size >> 2, KEPT_WORDS); word++)
        h = h * MULTIPLIER ^ words[word];
    for (; word < size >> 2; word++)
        h = h * MULTIPLIER ^ mixed_word(key, word);
    if (size & 3)
        h = (h ^ tail_of(key, size)) * MULTIPLIER;
    return finished(h);
}

LOOP hash_all(const u8 *data, i64 bytes, const i64 *offsets, i64 places, i64 seed, u32 *out, i64 rows)
{
    u32 words[KEPT_WORDS];
    (void)bytes, (void)places;
    for (i64 row = 0; row < rows; row++) {
        const u8 *key = data + offsets[row];
        i64 size = offsets[row + 1] - offsets[row];
        mix_words(key, size, words, 1);
        out[row] = hash_of(key, size, words, (u32)seed);
    }
}

/* ---- Bloom filters: bit i is bits[row, i >> 3] & (1 << (i & 7)) ---- */

/* abs(h % bits) with Java's remainder, which takes the sign of the dividend: so it is |h| % bits. */
static u32 position(u32 h, u32 bits)
{
    u32 size = h >> 31 ? 0u - h : h;
    return size % bits;
}

static int are_alike(const i64 *offsets, i64 first, i64 keys)
{
    i64 size = offsets[first + 1] - offsets[first];
    if (first + LANES > keys || size >> 2 > KEPT_WORDS)
        return 0;
    for (i64 lane = 1; lane < LANES; lane++)
        if (offsets[first + lane + 1] - offsets[first + lane] != size)
            return 0;
    return 1;
}

#define WAITING 256 /* bits that are set together: a filter is larger than the caches, so each asks for its byte first */

typedef struct {
    u8 *bits;
    i64 count, places[WAITING];
} waiting_bits;

static void set_waiting(waiting_bits *waiting)
{
    for (i64 i = 0; i < waiting->count; i++)
        waiting->bits[waiting->places[i] >> 3] |= (u8)(1u << (waiting->places[i] & 7));
    waiting->count = 0;
}

static void set_soon(waiting_bits *waiting, i64 row_start, u32 place)
{
    i64 bit = (row_start << 3) + place;
    if (waiting->count == WAITING)
        set_waiting(waiting);
    __builtin_prefetch(waiting->bits + (bit >> 3), 1);
    waiting->places[waiting->count++] = bit;
}

/* Sets the bits of each key in its row. A key's hashes wait for one another, so eight keys of one length go side by side. */
LOOP add_keys(const u8 *data, i64 bytes, const i64 *offsets, i64 places, i64 m, i64 k, const i64 *rows, i64 keys, u8 *bits,
              i64 filter_rows, i64 width)
{
    u32 words[KEPT_WORDS * LANES], tails[LANES], h[LANES];
    waiting_bits waiting;
    waiting.bits = bits, waiting.count = 0;
    (void)bytes, (void)places, (void)filter_rows;
    for (i64 i = 0; i < keys;) {
        const u8 *key = data + offsets[i];
        i64 size = offsets[i + 1] - offsets[i];
        if (!are_alike(offsets, i, keys)) {
            u32 seed = 0;
            mix_words(key, size, words, 1);
            for (i64 round = 0; round < k; round++) {
                seed = hash_of(key, size, words, seed);
                set_soon(&waiting, rows[i] * width, position(seed, (u32)m));
            }
            i++;
            continue;
        }
        for (i64 lane = 0; lane < LANES; lane++) {
            mix_words(key + lane * size, size, words + lane, LANES);
            tails[lane] = tail_of(key + lane * size, size);
            h[lane] = 0;
        }
        for (i64 round = 0; round < k; round++) {
            for (i64 lane = 0; lane < LANES; lane++)
                h[lane] ^= (u32)size;
            for (i64 word = 0; word < size >> 2; word++)
                for (i64 lane = 0; lane < LANES; lane++)
                    h[lane] = h[lane] * MULTIPLIER ^ words[word * LANES + lane];
            if (size & 3)
                for (i64 lane = 0; lane < LANES; lane++)
                    h[lane] = (h[lane] ^ tails[lane]) * MULTIPLIER;
            for (i64 lane = 0; lane < LANES; lane++)
                h[lane] = finished(h[lane]);
            for (i64 lane = 0; lane < LANES; lane++)
                set_soon(&waiting, rows[i + lane] * width, position(h[lane], (u32)m));
        }
        i += LANES;
    }
    set_waiting(&waiting);
}

#define KEPT_HASHES 64 /* of a key, for the filter's further rows */

/* Whether some row holds all positions of each key. A miss ends at the first clear bit. */
LOOP probe_keys(const u8 *data, i64 bytes, const i64 *offsets, i64 places, i64 m, i64 k, const u8 *bits, i64 filter_rows,
                i64 width, u8 *out, i64 keys)
{
    u32 words[KEPT_WORDS], hashes[KEPT_HASHES];
    (void)bytes, (void)places;
    for (i64 i = 0; i < keys; i++) {
        const u8 *key = data + offsets[i];
        i64 size = offsets[i + 1] - offsets[i], known = 0;
        u8 is_held = 0;
        mix_words(key, size, words, 1);
        for (i64 row = 0; row < filter_rows && !is_held; row++) {
            u32 seed = 0;
            is_held = 1;
            for (i64 round = 0; round < k && is_held; round++) {
                if (round < known) {
                    seed = hashes[round];
                } else {
                    seed = hash_of(key, size, words, seed);
                    if (round < KEPT_HASHES)
                        hashes[known++] = seed;
                }
                u32 place = position(seed, (u32)m);
                is_held = bits[row * width + (place >> 3)] >> (place & 7) & 1;
            }
        }
        out[i] = is_held;
    }
}

/* ---- Java's hashes: java_hash.py says what they are ---- */

typedef struct {
    const u8 *at, *end;
} Text;

static u32 low_bits(Text text, i64 place)
{
    return text.end - text.at > place ? text.at[place] & 0x3fu : 0;
}

/* String.hashCode of UTF-8; characters above U+FFFF are two units. What is cut off counts as zeros. */
static u32 string_hash(Text text)
{
    u32 h = 0;
    while (text.at < text.end) {
        u32 lead = text.at[0];
        if (lead < 0x80) {
            h = h * 31 + lead;
            text.at++;
            continue;
        }
        i64 size = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
        if (size == 2) {
            h = h * 31 + ((lead & 0x1f) << 6 | low_bits(text, 1));
        } else if (size == 3) {
            h = h * 31 + ((lead & 0x0f) << 12 | low_bits(text, 1) << 6 | low_bits(text, 2));
        } else {
            u32 point = (lead & 0x07) << 18 | low_bits(text, 1) << 12 | low_bits(text, 2) << 6 | low_bits(text, 3);
            point -= 0x10000;
            h = h * 31 + (0xd800u | point >> 10);
            h = h * 31 + (0xdc00u | (point & 0x3ff));
        }
        text.at += MIN(size, text.end - text.at);
    }
    return h;
}

/* Where a byte is first, or NULL. */
static const u8 *find(const u8 *at, const u8 *end, u8 byte)
{
    for (; at < end; at++)
        if (*at == byte)
            return at;
    return NULL;
}

static int is_text(Text text, const char *other, i64 size)
{
    return compare(text.at, text.end - text.at, (const u8 *)other, size) == 0;
}

static int is_listed(Text text, const u8 *names, const i64 *name_offsets, i64 count)
{
    for (i64 i = 0; i < count; i++)
        if (is_text(text, (const char *)names + name_offsets[i], name_offsets[i + 1] - name_offsets[i]))
            return 1;
    return 0;
}

static u32 value_hash(Text value)
{
    return is_text(value, "__null__", 8) || is_text(value, "__empty__", 9) ? 0 : string_hash(value);
}

LOOP hash_strings(const u8 *data, i64 bytes, const i64 *offsets, i64 places, u32 *out, i64 rows)
{
    (void)bytes, (void)places;
    for (i64 row = 0; row < rows; row++)
        out[row] = string_hash((Text){data + offsets[row], data + offsets[row + 1]});
}

LOOP hash_new(const u8 *data, i64 bytes, const i64 *offsets, i64 places, const u8 *names, i64 name_bytes,
              const i64 *name_offsets, i64 name_places, u32 *out, i64 rows)
{
    (void)bytes, (void)places, (void)name_bytes;
    for (i64 row = 0; row < rows; row++) {
        const u8 *at = data + offsets[row], *end = data + offsets[row + 1];
        const u8 *colon = find(at, end, ',') ? find(at, end, ':') : NULL;
        u32 h = 1;
        int is_taken = 0;
        while (colon) {
            /* the value ends at the last comma before the first further colon that has a comma before it */
            const u8 *comma = NULL, *stop = end;
            for (const u8 *i = colon + 1; i < end && stop == end; i++) {
                if (*i == ',')
                    comma = i;
                else if (*i == ':' && comma)
                    stop = comma;
            }
            if (is_listed((Text){at, colon}, names, name_offsets, name_places - 1)) {
                h = h * 31 + value_hash((Text){colon + 1, stop});
                is_taken = 1;
            }
            at = stop < end ? stop + 1 : end;
            colon = find(at, end, ':');
        }
        out[row] = is_taken ? h : 31 + string_hash((Text){data + offsets[row], end});
    }
}

LOOP hash_old(const u8 *data, i64 bytes, const i64 *offsets, i64 places, const u8 *names, i64 name_bytes,
              const i64 *name_offsets, i64 name_places, u32 *out, i64 rows)
{
    (void)bytes, (void)places, (void)name_bytes;
    for (i64 row = 0; row < rows; row++) {
        const u8 *at = data + offsets[row], *end = data + offsets[row + 1];
        u32 h = 1;
        if (!find(at, end, ':')) {
            out[row] = 31 + string_hash((Text){at, end});
            continue;
        }
        while (end > at && end[-1] == ',')
            end--;
        for (;;) {
            const u8 *comma = find(at, end, ',');
            const u8 *stop = comma ? comma : end;
            const u8 *colon = find(at, stop, ':');
            if (!colon)
                h = h * 31 + string_hash((Text){at, stop});
            else if (is_listed((Text){at, colon}, names, name_offsets, name_places - 1))
                h = h * 31 + value_hash((Text){colon + 1, stop});
            if (!comma)
                break;
            at = comma + 1;
        }
        out[row] = h;
    }
}

/* ---- Digests of rows: row_digest.py ---- */

#define FNV_OFFSET 0xcbf29ce484222325u
#define FNV_PRIME 0x100000001b3u

/* The finisher of SplitMix64. */
static u64 mixed(u64 value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

#define FOLDED 4 /* rows that are folded side by side: each step waits for the one before */

LOOP fold_bytes(const u8 *data, i64 bytes, const i64 *offsets, i64 places, u64 *out, i64 rows)
{
    (void)bytes, (void)places;
    for (i64 first = 0; first < rows; first += FOLDED) {
        i64 lanes = MIN(FOLDED, rows - first), least = lanes == FOLDED ? INT64_MAX : 0;
        const i64 *begin = offsets + first;
        u64 h[FOLDED];
        for (i64 lane = 0; lane < lanes; lane++) {
            i64 size = begin[lane + 1] - begin[lane];
            h[lane] = FNV_OFFSET ^ (u64)size;
            least = MIN(least, size);
        }
        for (i64 at = 0; at < least; at++)
            for (i64 lane = 0; lane < FOLDED; lane++)
                h[lane] = (h[lane] ^ data[begin[lane] + at]) * FNV_PRIME;
        for (i64 lane = 0; lane < lanes; lane++) {
            for (i64 at = begin[lane] + least; at < begin[lane + 1]; at++)
                h[lane] = (h[lane] ^ data[at]) * FNV_PRIME;
            out[first + lane] = mixed(h[lane]);
        }
    }
}

LOOP fold_hashes(const u64 *values, i64 count, const i64 *offsets, i64 places, u64 *out, i64 rows)
{
    (void)count, (void)places;
    for (i64 row = 0; row < rows; row++) {
        u64 h = FNV_OFFSET ^ (u64)(offsets[row + 1] - offsets[row]);
        for (i64 at = offsets[row]; at < offsets[row + 1]; at++) {
            h = (h ^ values[at]) * FNV_PRIME;
            h ^= h >> 29;
        }
        out[row] = mixed(h);
    }
}

LOOP mix_all(i64 added, u64 *values, i64 count)
{
    for (i64 i = 0; i < count; i++)
        values[i] = mixed(values[i] + (u64)added);
}

LOOP mix_in(const u64 *values, i64 count, i64 number, u64 *hashes, i64 rows)
{
    (void)count;
    for (i64 row = 0; row < rows; row++)
        hashes[row] = mixed(hashes[row] ^ (values[row] + (u64)number));
}

LOOP mix_entries(const u64 *entries, i64 count, const int32_t *places, i64 numbers, i64 number, u64 *hashes, i64 rows)
{
    (void)numbers;
    for (i64 row = 0; row < rows; row++) {
        u64 place = MIN((u64)(i64)places[row], (u64)count - 1);
        hashes[row] = mixed(hashes[row] ^ (entries[place] + (u64)number));
    }
}

/* ---- Searches ---- */

/* How many of the sorted edges are not above each value; what is not a number is above all. */
#define COUNT_EDGES(name, type)                                                                                        \
    LOOP name(const type *edges, i64 all, const type *values, i64 rows, u64 *out, i64 count)                           \
    {                                                                                                                  \
        i64 numbers = all;                                                                                             \
        (void)count;                                                                                                   \
        while (numbers > 0 && edges[numbers - 1] != edges[numbers - 1])                                                \
            numbers--;                                                                                                 \
        for (i64 row = 0; row < rows; row++) {                                                                         \
            type value = values[row];                                                                                  \
            const type *base = edges;                                                                                  \
            i64 left = numbers;                                                                                        \
            for (; left > 1; left -= left / 2)                                                                         \
                base += edges_below(base[left / 2 - 1] <= value, left / 2);                                            \
            out[row] = value != value ? (u64)all : (u64)(base - edges) + (u64)(left == 1 && *base <= value);           \
        }                                                                                                              \
    }

static i64 edges_below(int is_below, i64 half)
{
    return half & -(i64)is_below;
}

COUNT_EDGES(count_edges_f8, double)
COUNT_EDGES(count_edges_i8, i64)
COUNT_EDGES(count_edges_u8, u64)

/* Where each end would be put into the sorted strings, before equal ones or (is_right) behind them. */
LOOP search_strings(const u8 *data, i64 bytes, const i64 *offsets, i64 places, const u8 *ends, i64 end_bytes,
                    const i64 *end_offsets, i64 end_places, i64 is_right, i64 *out, i64 count)
{
    (void)bytes, (void)end_bytes, (void)end_places;
    for (i64 i = 0; i < count; i++) {
        i64 low = 0, high = places - 1;
        while (low < high) {
            i64 middle = (low + high) >> 1;
            int order = compare(data + offsets[middle], offsets[middle + 1] - offsets[middle], ends + end_offsets[i],
                                end_offsets[i + 1] - end_offsets[i]);
            if (order < 0 || (is_right && order == 0))
                low = middle + 1;
            else
                high = middle;
        }
        out[i] = low;
    }
}

#define ENTRY_HEAD 10
#define FINE 0

static i64 int_at(const u8 *at)
{
    return (int32_t)((u32)at[0] << 24 | (u32)at[1] << 16 | (u32)at[2] << 8 | at[3]);
}

/* Values of sorted keys in data blocks of HFiles; record_index.py says what the arrays are. */
LOOP find_values(const u8 *data, i64 bytes, const i64 *blocks, i64 block_count, i64 three, i64 has_mvcc, const u8 *keys,
                 i64 key_bytes, const i64 *key_offsets, i64 key_places, i64 *found, i64 rows, i64 two)
{
    i64 at = 0;
    (void)three, (void)key_bytes, (void)two;
    for (i64 block = 0; block < block_count; block++) {
        i64 end = blocks[3 * block], wanted = blocks[3 * block + 1], last = blocks[3 * block + 2];
        const u8 *before = data + at;
        i64 before_size = 0;
        if (end > bytes || wanted < 0 || last > rows - 1 || last > key_places - 1)
            return;
        while (at < end) {
            if (end - at < ENTRY_HEAD)
                return;
            const u8 *key = data + at + ENTRY_HEAD;
            i64 value = at + 8 + int_at(data + at);
            i64 stop = value + int_at(data + at + 4);
            i64 size = (i64)data[at + 8] << 8 | data[at + 9];
            if (size >> 15 || at + ENTRY_HEAD + size > value || stop < value || stop > end)
                return;
            if (compare(before, before_size, key, size) > 0)
                return;
            before = key;
            before_size = size;
            for (; wanted < last; wanted++) {
                i64 from = key_offsets[wanted];
                int order = compare(keys + from, key_offsets[wanted + 1] - from, key, size);
                if (order == 0) {
                    found[2 * wanted] = value;
                    found[2 * wanted + 1] = stop;
                }
                if (order >= 0)
                    break;
            }
            at = stop;
            if (has_mvcc) {
                if (at >= end || data[at] != 0)
                    return;
                at++;
            }
        }
    }
    found[2 * (rows - 1)] = FINE;
}

/* Values one behind the other: the one at starts[i] goes to out[offsets[i]:offsets[i + 1]]. */
LOOP copy_values(const u8 *data, i64 bytes, const i64 *starts, i64 count, const i64 *offsets, i64 places, u8 *out, i64 size)
{
    (void)bytes, (void)places, (void)size;
    for (i64 i = 0; i < count; i++) {
        const u8 *value = data + starts[i];
        for (i64 at = offsets[i]; at < offsets[i + 1]; at++)
            out[at] = *value++;
    }
}

/* ---- Thrift's compact protocol: footers and page headers of Parquet ---- */

enum { STOP, TRUE_, FALSE_, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT };
#define MOST_FIELD (1 << 15)

typedef struct {
    const u8 *data;
    i64 size, at;
} Reader;

/* A number of 64 bits; the place behind it is -1 if the bytes hold none. */
static u64 varint(Reader *in)
{
    u64 value = 0;
    for (int byte = 0; byte < 10; byte++) {
        if (in->at < 0 || in->at >= in->size)
            break;
        u8 part = in->data[in->at++];
        if (byte < 9)
            value |= (u64)(part & 0x7f) << (7 * byte);
        else if (part == 1)
            value |= (u64)1 << 63;
        if (part < 0x80) {
            if (byte == 9 && part > 1)
                break;
            return value;
        }
    }
    in->at = -1;
    return value;
}

static i64 unzigzag(u64 value)
{
    return (i64)(value >> 1 ^ (0 - (value & 1)));
}

#define DEEPEST_PAGE 8
enum { HEADER_END, BODY_BYTES, CRC, HAS_CRC };
#define CUT_SHORT (-1)
#define SENSELESS (-2)

/* The PageHeader struct at start; thrift_walk.py says what is kept of it. */
LOOP page_header(const u8 *data, i64 size, i64 start, i64 *found, i64 numbers)
{
    Reader in = {data, size, start};
    i64 left[DEEPEST_PAGE] = {-1}, fields[DEEPEST_PAGE] = {0}; /* left: elements of a list; -1: a struct */
    int kinds[DEEPEST_PAGE] = {0}, depth = 0;
    (void)numbers;
    found[HEADER_END] = CUT_SHORT;
    found[BODY_BYTES] = -1;
    found[CRC] = found[HAS_CRC] = 0;
    while (depth >= 0) {
        int kind, in_list = left[depth] >= 0;
        if (in_list) {
            if (left[depth] == 0) {
                depth--;
                continue;
            }
            left[depth]--;
            kind = kinds[depth];
        } else {
            if (in.at >= size)
                return;
            int head = data[in.at++];
            kind = head & 15;
            if (kind == STOP) {
                depth--;
                continue;
            }
            if (head >> 4) {
                fields[depth] += head >> 4;
            } else {
                fields[depth] = unzigzag(varint(&in));
                if (in.at < 0)
                    return;
            }
            if (fields[depth] > MOST_FIELD || fields[depth] < -MOST_FIELD) {
                found[HEADER_END] = SENSELESS;
                return;
            }
        }
        if (kind == TRUE_ || kind == FALSE_) {
            in.at += in_list;
        } else if (kind == BYTE) {
            in.at += 1;
        } else if (kind == DOUBLE) {
            in.at += 8;
        } else if (kind == BINARY) {
            i64 count = (i64)varint(&in);
            if (in.at < 0 || count < 0 || count > size - in.at)
                return;
            in.at += count;
        } else if (kind == LIST || kind == SET || kind == STRUCT) {
            if (depth + 1 == DEEPEST_PAGE) {
                found[HEADER_END] = SENSELESS;
                return;
            }
            i64 count = -1;
            if (kind != STRUCT) {
                if (in.at >= size)
                    return;
                int head = data[in.at++];
                count = head >> 4;
                if (count == 15)
                    count = (i64)varint(&in);
                if (in.at < 0 || count < 0 || count > size - in.at)
                    return;
                kinds[depth + 1] = head & 15;
            } else {
                fields[depth + 1] = 0;
            }
            left[++depth] = count;
        } else if (kind == I16 || kind == I32 || kind == I64) {
            i64 value = unzigzag(varint(&in));
            if (in.at < 0)
                return;
            if (depth == 0 && fields[0] == 3) {
                found[BODY_BYTES] = value;
            } else if (depth == 0 && fields[0] == 4) {
                found[CRC] = value;
                found[HAS_CRC] = 1;
            }
        } else {
            found[HEADER_END] = SENSELESS;
            return;
        }
        if (in.at > size)
            return;
    }
    found[HEADER_END] = in.at;
}

#define DEEPEST_FOOTER 24
/* what is kept of a column chunk, and of the file: thrift_walk.py */
enum { SIZE, DATA, DICTIONARY, MIN_AT, MIN_BYTES, MAX_AT, MAX_BYTES, START, END, FILE_OFFSET_AT, FILE_OFFSET_END, DATA_AT,
       DATA_END, DICTIONARY_AT, DICTIONARY_END, FULL_SIZE, MORE, STATISTICS_AT, STATISTICS_END, NULLS, NUMBERS };
enum { SCHEMA_AT, SCHEMA_END, ROWS_AT, ROWS_END, GROUPS_AT, GROUPS_END, ENTRIES_AT, ENTRIES_END };
/* what an open container is */
enum Role { OTHER, FILE_, ROW_GROUPS, ROW_GROUP, COLUMNS, CHUNK, META, STATISTICS, SCHEMA, ENTRIES };

/* What a container is that opens as this field (or element) of another one. */
static enum Role role_inside(enum Role role, i64 field, int kind, int is_wanted)
{
    if (role == FILE_ && kind == LIST)
        return field == 2 ? SCHEMA : field == 4 ? ROW_GROUPS : field == 5 ? ENTRIES : OTHER;
    if (role == ROW_GROUPS && kind == STRUCT)
        return ROW_GROUP;
    if (role == ROW_GROUP && field == 1 && kind == LIST)
        return COLUMNS;
    if (role == COLUMNS && kind == STRUCT && is_wanted)
        return CHUNK;
    if (role == CHUNK && field == 3 && kind == STRUCT)
        return META;
    if (role == META && field == 12 && kind == STRUCT)
        return STATISTICS;
    return OTHER;
}

/* Keep a number that stands at [begin, end). */
static void keep_number(enum Role role, i64 field, i64 value, i64 begin, i64 end, i64 *row, i64 *places)
{
    if (role == META) {
        if (field == 6) {
            row[FULL_SIZE] = value;
        } else if (field == 7) {
            row[SIZE] = value;
        } else if (field == 9) {
            row[DATA] = value, row[DATA_AT] = begin, row[DATA_END] = end;
        } else if (field == 11) {
            row[DICTIONARY] = value, row[DICTIONARY_AT] = begin, row[DICTIONARY_END] = end;
        } else if (field == 10 || field == 14) {
            row[MORE] = field;
        }
    } else if (role == CHUNK) {
        if (field == 2)
            row[FILE_OFFSET_AT] = begin, row[FILE_OFFSET_END] = end;
        else
            row[MORE] = field;
    } else if (role == STATISTICS && field == 3) {
        row[NULLS] = value;
    } else if (role == FILE_ && field == 3) {
        places[ROWS_AT] = begin, places[ROWS_END] = end;
    }
}

/* A container ends. */
static void close(enum Role role, i64 at, i64 *row, i64 *places)
{
    if (role == CHUNK)
        row[END] = at;
    else if (role == STATISTICS)
        row[STATISTICS_END] = at;
    else if (role == SCHEMA)
        places[SCHEMA_END] = at;
    else if (role == ROW_GROUPS)
        places[GROUPS_END] = at;
    else if (role == ENTRIES)
        places[ENTRIES_END] = at;
}

/* Walk a FileMetaData, keep what it says of columns from first on; seen[0]: row groups, -1 if senseless. */
LOOP walk(const u8 *data, i64 size, i64 first, i64 *found, i64 wanted_groups, i64 wanted_columns, i64 numbers, i64 *places,
          i64 place_count, i64 *seen, i64 one)
{
    Reader in = {data, size, 0};
    enum Role role[DEEPEST_FOOTER] = {FILE_};
    i64 left[DEEPEST_FOOTER] = {-1};   /* elements left of a list; -1: a struct */
    i64 fields[DEEPEST_FOOTER] = {0};  /* last field id of a struct, element number of a list */
    int kinds[DEEPEST_FOOTER] = {0};   /* element type of a list */
    i64 nothing[NUMBERS], *row = nothing; /* of the column chunk that is open, if it is wanted */
    i64 groups = 0;
    int depth = 0;
    (void)numbers, (void)place_count, (void)one;
    seen[0] = -1;
    while (depth >= 0) {
        enum Role inside = role[depth];
        int kind, in_list = left[depth] >= 0;
        if (in_list) {
            if (left[depth] == 0) {
                close(inside, in.at, row, places);
                depth--;
                continue;
            }
            left[depth]--;
            kind = kinds[depth];
        } else {
            if (in.at >= size)
                return;
            int head = data[in.at++];
            kind = head & 15;
            if (kind == STOP) {
                close(inside, in.at, row, places);
                depth--;
                continue;
            }
            if (head >> 4) {
                fields[depth] += head >> 4;
            } else {
                fields[depth] = unzigzag(varint(&in));
                if (in.at < 0)
                    return;
            }
            if (fields[depth] > MOST_FIELD || fields[depth] < -MOST_FIELD)
                return; /* thrift has 16 bits for it */
        }
        i64 field = in_list ? fields[depth]++ : fields[depth];
        if (kind == TRUE_ || kind == FALSE_) {
            in.at += in_list;
        } else if (kind == BYTE) {
            in.at += 1;
        } else if (kind == DOUBLE) {
            in.at += 8;
        } else if (kind == BINARY) {
            i64 count = (i64)varint(&in);
            if (in.at < 0 || count < 0 || count > size - in.at)
                return;
            if (inside == STATISTICS && field == 6)
                row[MIN_AT] = in.at, row[MIN_BYTES] = count;
            else if (inside == STATISTICS && field == 5)
                row[MAX_AT] = in.at, row[MAX_BYTES] = count;
            in.at += count;
        } else if (kind == LIST || kind == SET) {
            if (in.at >= size || depth + 1 == DEEPEST_FOOTER)
                return;
            if (inside == FILE_ && field == 2)
                places[SCHEMA_AT] = in.at;
            else if (inside == FILE_ && field == 4)
                places[GROUPS_AT] = in.at;
            else if (inside == FILE_ && field == 5)
                places[ENTRIES_AT] = in.at;
            int head = data[in.at++];
            i64 count = head >> 4;
            if (count == 15)
                count = (i64)varint(&in);
            if (in.at < 0 || count < 0 || count > size - in.at)
                return; /* an element takes a byte at least */
            depth++;
            role[depth] = role_inside(inside, field, LIST, 0);
            left[depth] = count;
            kinds[depth] = head & 15;
            fields[depth] = 0;
        } else if (kind == STRUCT) {
            if (depth + 1 == DEEPEST_FOOTER)
                return;
            depth++;
            role[depth] = role_inside(inside, field, STRUCT, first <= field && field < first + wanted_columns);
            left[depth] = -1;
            fields[depth] = 0;
            if (role[depth] == ROW_GROUP) {
                groups++;
            } else if (role[depth] == CHUNK) {
                row = groups <= wanted_groups ? found + ((groups - 1) * wanted_columns + field - first) * NUMBERS : nothing;
                row[START] = in.at;
            } else if (role[depth] == STATISTICS) {
                row[STATISTICS_AT] = in.at;
            } else if (inside == CHUNK && field != 3) {
                row[MORE] = field;
            }
        } else if (kind == I16 || kind == I32 || kind == I64) {
            i64 begin = in.at, value = unzigzag(varint(&in));
            if (in.at < 0)
                return;
            keep_number(inside, field, value, begin, in.at, row, places);
        } else {
            return; /* no such type, or a map, which a footer has none of */
        }
        if (in.at > size)
            return;
    }
    seen[0] = groups;
}

/* ---- Floats that become doubles by way of Java's text: widening.py ---- */

#define FRACTION_BITS 52
#define SIGNIFICANT 24 /* bits of a float */
#define MOST_EXACT_POWER 22
#define WHOLE ((i64)1)

static const double POWERS[MOST_EXACT_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
static const i64 FIVES[27] = {1, 5, 25, 125, 625, 3125, 15625, 78125, 390625, 1953125, 9765625, 48828125, 244140625,
                              1220703125, 6103515625, 30517578125, 152587890625, 762939453125, 3814697265625,
                              19073486328125, 95367431640625, 476837158203125, 2384185791015625, 11920928955078125,
                              59604644775390625, 298023223876953125, 1490116119384765625};
static const int FIVES_BITS[27] = {1,  3,  5,  7,  10, 12, 14, 17, 19, 21, 24, 26, 28, 31,
                                   33, 35, 38, 40, 42, 45, 47, 49, 52, 54, 56, 59, 61};
/* decimal digits below a power of two that carry no information, as in java_text.py */
static const int INSIGNIFICANT[] = {0,  0,  0,  0,  1,  1,  1,  2,  2,  2,  3,  3,  3,  3,  4,  4,
                                    4,  5,  5,  5,  6,  6,  6,  6,  7,  7,  7,  8,  8,  8,  9,  9,
                                    9,  9,  10, 10, 10, 11, 11, 11, 12, 12, 12, 12, 13, 13, 13, 14,
                                    14, 14, 15, 15, 15, 15, 16, 16, 16, 17, 17, 17, 18, 18, 18, 19};
#define INSIGNIFICANTS ((int)(sizeof INSIGNIFICANT / sizeof *INSIGNIFICANT))

/* As Java's ints overflow, where it takes ints. */
static i64 wrapped(i64 value, int is_narrow)
{
    return is_narrow ? (int32_t)(u32)value : value;
}

/* number * 10**power, correctly rounded since both are exact; NaN where they are not. */
static double scaled(i64 number, i64 power)
{
    if (number >= WHOLE << 53 || power > MOST_EXACT_POWER || power < -MOST_EXACT_POWER)
        return __builtin_nan("");
    return power >= 0 ? (double)number * POWERS[power] : (double)number / POWERS[-power];
}

static double of_whole(i64 fraction, int exponent)
{
    int excess = exponent - SIGNIFICANT - 1;
    int skip = exponent > SIGNIFICANT && 1 < excess && excess < INSIGNIFICANTS ? INSIGNIFICANT[excess] : 0;
    i64 power = 1;
    if (exponent >= FRACTION_BITS)
        fraction = (i64)((u64)fraction << (exponent - FRACTION_BITS));
    else
        fraction >>= FRACTION_BITS - exponent;
    if (fraction < 0)
        return __builtin_nan("");
    for (int i = 0; i < skip; i++)
        power *= 10;
    i64 rest = fraction % power;
    fraction /= power;
    return scaled(fraction + (skip && rest >= power >> 1), skip);
}

/* Of a normal float above zero; NaN where it takes more than 64 bits. */
static double double_of_text(i64 fraction, int exponent)
{
    i64 odd = fraction;
    int tail = 0;
    for (; !(odd & 1); odd >>= 1)
        tail++;
    int fraction_bits = FRACTION_BITS + 1 - tail;
    int tiny_bits = MAX(0, fraction_bits - exponent - 1);
    if (exponent <= 62 && tiny_bits == 0)
        return of_whole(fraction, exponent);
    double estimate = ((double)fraction / 4503599627370496.0 - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981;
    int decimal = (int)estimate - (estimate < (int)estimate);
    int b5 = MAX(0, -decimal), s5 = MAX(0, decimal);
    int b2 = b5 + tiny_bits + exponent, s2 = s5 + tiny_bits, m2 = b2 - SIGNIFICANT;
    b2 -= fraction_bits - 1;
    int common = MIN(b2, s2);
    b2 -= common, s2 -= common, m2 -= common;
    if (fraction_bits == 1)
        m2--;
    if (m2 < 0)
        b2 -= m2, s2 -= m2, m2 = 0;
    if (b5 >= 27 || s5 + 1 >= 27)
        return __builtin_nan("");
    int b_bits = fraction_bits + b2 + FIVES_BITS[b5], tens_bits = s2 + 1 + FIVES_BITS[s5 + 1];
    if (b_bits >= 64 || tens_bits >= 64)
        return __builtin_nan("");
    int is_narrow = b_bits < 32 && tens_bits < 32;
    i64 b = odd * FIVES[b5] << b2, s = FIVES[s5] << s2, tens = 10 * s;
    i64 m = (i64)((u64)FIVES[b5] << m2);
    i64 digit = b / s, number = 0, last = 0;
    int digits = 0;
    b = 10 * (b % s);
    m = wrapped((i64)((u64)m * 10), is_narrow);
    int is_low = b < m, is_high = wrapped((i64)((u64)b + (u64)m), is_narrow) > tens;
    if (digit == 0 && !is_high)
        decimal--;
    else
        number = last = digit, digits = 1;
    if (decimal < -3 || decimal >= 8)
        is_low = is_high = 0;
    while (!is_low && !is_high) {
        digit = b / s;
        b = 10 * (b % s);
        m = wrapped((i64)((u64)m * 10), is_narrow);
        is_low = m <= 0 || b < m;
        is_high = m <= 0 || wrapped((i64)((u64)b + (u64)m), is_narrow) > tens;
        number = (i64)((u64)number * 10 + (u64)digit);
        last = digit;
        digits++;
    }
    i64 difference = wrapped((i64)((u64)wrapped((i64)((u64)b * 2), is_narrow) - (u64)tens), is_narrow);
    if (is_high && (!is_low || difference > 0 || (difference == 0 && last % 2 == 1)))
        number++;
    return scaled(number, decimal + 1 - digits);
}

/* Double.parseDouble(Float.toString(value)) of each value; NaN of what is not finite or takes more than 64 bits. */
LOOP doubles_of_texts(const float *values, i64 count, double *out, i64 rows)
{
    (void)rows;
    for (i64 i = 0; i < count; i++) {
        union {
            float value;
            u32 bits;
        } of = {values[i]};
        int exponent = of.bits >> 23 & 0xff;
        i64 fraction = of.bits & 0x7fffff;
        if (exponent == 0 && fraction == 0)
            out[i] = values[i];
        else if (exponent == 0 || exponent == 0xff)
            out[i] = __builtin_nan("");
        else
            out[i] = double_of_text((fraction | 0x800000) << (FRACTION_BITS - 23), exponent - 127);
        if (of.bits >> 31 && fraction + exponent != 0)
            out[i] = -out[i];
    }
}
