/*
 * Counts the raw data blocks in an AAC packet (ISO/IEC 14496-3, subpart 4): decoders decode all of them, and only a
 * block's own bits tell where it ends. Nothing is decoded: values are read to find the end of a block.
 */
#include "aac-blocks.h"
#include <libavcodec/aac.h>
#include <libavcodec/aactab.h>
#include <libavcodec/get_bits.h>
#include <libavcodec/mpeg4audio.h>
#include <libavcodec/vlc.h>

#define VLC_BITS 8
#define VLC_DEPTH 3
#define ESCAPED 16
#define FIRST_ESCAPE 8

enum { EIGHT_SHORT = 2 };

typedef struct Ics {
    int is_short, groups, max_sfb;
    int group_windows[8];
    uint8_t codebooks[8][64];
    const uint16_t *offsets;
} Ics;

static VLC spectrum[11], scales;

/* What follows a code word of a spectrum codebook: how many signs, and which of two values are escaped. */
static int rest_of(int codebook, int index)
{
    int count = codebook < 5 ? 4 : 2, rest = 0;
    int base = codebook < 5 ? 3 : codebook < 9 ? 8 : codebook < ESC_BT ? 13 : 17;
    if (codebook < 3 || codebook == 5 || codebook == 6) return 0; /* the signs are in the code words */
    for (int i = 0; i < count; i++, index /= base) {
        if (index % base) rest++;
        if (index % base == ESCAPED) rest += FIRST_ESCAPE << i;
    }
    return rest;
}

static void make_tables(void)
{
    static int is_done;
    if (is_done) return;
    is_done = 1;
    vlc_init(&scales, VLC_BITS, 121, ff_aac_scalefactor_bits, 1, 1, ff_aac_scalefactor_code, 4, 4, 0);
    for (int i = 0; i < 11; i++) {
        uint8_t rests[289];
        for (int index = 0; index < ff_aac_spectral_sizes[i]; index++) rests[index] = rest_of(i + 1, index);
        ff_vlc_init_sparse(&spectrum[i], VLC_BITS, ff_aac_spectral_sizes[i], ff_aac_spectral_bits[i], 1, 1,
                           ff_aac_spectral_codes[i], 2, 2, rests, 1, 1, 0);
    }
}

static int read_scale(GetBitContext *gb)
{
    return get_vlc2(gb, scales.table, VLC_BITS, VLC_DEPTH);
}

static int read_ics_info(GetBitContext *gb, const AacConfig *config, Ics *ics)
{
    skip_bits1(gb);
    ics->is_short = get_bits(gb, 2) == EIGHT_SHORT;
    skip_bits1(gb);
    ics->groups = 1;
    ics->group_windows[0] = 1;
    if (ics->is_short) {
        ics->max_sfb = get_bits(gb, 4);
        for (int i = 0; i < 7; i++) {
            if (get_bits1(gb)) ics->group_windows[ics->groups - 1]++;
            else ics->group_windows[ics->groups++] = 1;
        }
        ics->offsets = ff_swb_offset_128[config->sampling_index];
        return ics->max_sfb <= ff_aac_num_swb_128[config->sampling_index];
    }
    ics->max_sfb = get_bits(gb, 6);
    ics->offsets = (config->is_960 ? ff_swb_offset_960 : ff_swb_offset_1024)[config->sampling_index];
    if (ics->max_sfb > (config->is_960 ? ff_aac_num_swb_960 : ff_aac_num_swb_1024)[config->sampling_index]) return 0;
    if (!get_bits1(gb)) return 1;
    if (config->object_type == AOT_AAC_MAIN) {
        if (get_bits1(gb)) skip_bits(gb, 5);
        skip_bits_long(gb, FFMIN(ics->max_sfb, ff_aac_pred_sfb_max[config->sampling_index]));
        return 1;
    }
    if (config->object_type != AOT_AAC_LTP) return 0;
    if (get_bits1(gb)) skip_bits_long(gb, 14 + FFMIN(ics->max_sfb, 40));
    return 1;
}

static int read_sections(GetBitContext *gb, Ics *ics)
{
    const int bits = ics->is_short ? 3 : 5, escape = (1 << bits) - 1;
    for (int g = 0; g < ics->groups; g++) {
        for (int sfb = 0; sfb < ics->max_sfb;) {
            int codebook = get_bits(gb, 4), end = sfb, step;
            if (codebook == 12) return 0;
            do {
                if (get_bits_left(gb) < 0) return 0;
                end += step = get_bits(gb, bits);
            } while (step == escape);
            if (end > ics->max_sfb) return 0;
            while (sfb < end) ics->codebooks[g][sfb++] = codebook;
        }
    }
    return 1;
}

static int read_scales(GetBitContext *gb, const Ics *ics)
{
    int is_first_noise = 1;
    for (int g = 0; g < ics->groups; g++)
        for (int sfb = 0; sfb < ics->max_sfb; sfb++) {
            const int codebook = ics->codebooks[g][sfb];
            if (codebook == ZERO_BT) continue;
            if (codebook == NOISE_BT && is_first_noise) {
                is_first_noise = 0;
                skip_bits(gb, 9);
            } else if (read_scale(gb) < 0) return 0;
        }
    return 1;
}

static void skip_tns(GetBitContext *gb, const Ics *ics)
{
    for (int window = 0; window < (ics->is_short ? 8 : 1); window++) {
        int filters = get_bits(gb, ics->is_short ? 1 : 2);
        int bits = filters ? 3 + get_bits1(gb) : 0;
        while (filters-- > 0) {
            int order;
            skip_bits(gb, ics->is_short ? 4 : 6);
            order = get_bits(gb, ics->is_short ? 3 : 5);
            if (order) {
                skip_bits1(gb);
                skip_bits_long(gb, order * (bits - get_bits1(gb)));
            }
        }
    }
}

/* A value that no code word has. */
static int read_escaped(GetBitContext *gb)
{
    int bits = 4;
    while (get_bits1(gb))
        if (++bits > 12) return 0;
    skip_bits(gb, bits);
    return 1;
}

/* So many coefficients of a codebook; the innermost loop. */
static int read_coefficients(GetBitContext *gb, int codebook, int count)
{
    const VLCElem *table = spectrum[codebook - 1].table;
    const int step = codebook < 5 ? 4 : 2;
    OPEN_READER(re, gb);
    for (int i = 0; i < count; i += step) {
        int rest;
        UPDATE_CACHE(re, gb);
        GET_VLC(rest, re, gb, table, VLC_BITS, VLC_DEPTH);
        if (rest < 0) return 0;
        SKIP_COUNTER(re, gb, rest % FIRST_ESCAPE);
        if (rest < FIRST_ESCAPE) continue;
        CLOSE_READER(re, gb);
        if (rest & FIRST_ESCAPE && !read_escaped(gb)) return 0;
        if (rest & FIRST_ESCAPE << 1 && !read_escaped(gb)) return 0;
        re_index = gb->index;
    }
    CLOSE_READER(re, gb);
    return get_bits_left(gb) >= 0;
}

static int read_spectrum(GetBitContext *gb, const Ics *ics)
{
    for (int g = 0; g < ics->groups; g++)
        for (int sfb = 0, next; sfb < ics->max_sfb; sfb = next) {
            const int codebook = ics->codebooks[g][sfb];
            for (next = sfb + 1; next < ics->max_sfb && ics->codebooks[g][next] == codebook;) next++;
            if (codebook == ZERO_BT || codebook > ESC_BT) continue;
            if (!read_coefficients(gb, codebook, (ics->offsets[next] - ics->offsets[sfb]) * ics->group_windows[g])) return 0;
        }
    return 1;
}

/* An individual channel stream. */
static int read_ics(GetBitContext *gb, const AacConfig *config, Ics *ics, int has_info)
{
    skip_bits(gb, 8);
    if (!has_info && !read_ics_info(gb, config, ics)) return 0;
    if (!read_sections(gb, ics) || !read_scales(gb, ics)) return 0;
    if (get_bits1(gb)) {
        if (ics->is_short) return 0;
        int pulses = get_bits(gb, 2) + 1;
        skip_bits_long(gb, 6 + pulses * 9);
    }
    if (get_bits1(gb)) skip_tns(gb, ics);
    return !get_bits1(gb) && read_spectrum(gb, ics);
}

static int read_pair(GetBitContext *gb, const AacConfig *config, Ics *ics)
{
    const int is_common = get_bits1(gb);
    if (is_common) {
        int stereo;
        if (!read_ics_info(gb, config, ics)) return 0;
        stereo = get_bits(gb, 2);
        if (stereo == 3) return 0;
        if (stereo == 1) skip_bits_long(gb, ics->groups * ics->max_sfb);
    }
    return read_ics(gb, config, ics, is_common) && read_ics(gb, config, ics, is_common);
}

static int read_coupling(GetBitContext *gb, const AacConfig *config, Ics *ics)
{
    const int is_independent = get_bits1(gb), coupled = get_bits(gb, 3) + 1;
    int gains = coupled;
    for (int i = 0; i < coupled; i++) {
        const int is_pair = get_bits1(gb);
        skip_bits(gb, 4);
        if (is_pair && get_bits(gb, 2) == 3) gains++;
    }
    skip_bits(gb, 4);
    if (!read_ics(gb, config, ics, 0)) return 0;
    for (int i = 1; i < gains; i++) {
        const int is_one = is_independent || get_bits1(gb);
        if (is_one && read_scale(gb) < 0) return 0;
        for (int g = 0; !is_one && g < ics->groups; g++)
            for (int sfb = 0; sfb < ics->max_sfb; sfb++)
                if (ics->codebooks[g][sfb] != ZERO_BT && read_scale(gb) < 0) return 0;
    }
    return 1;
}

static void skip_program_config(GetBitContext *gb)
{
    int five, four;
    skip_bits(gb, 6);
    five = get_bits(gb, 4) + get_bits(gb, 4) + get_bits(gb, 4);
    four = get_bits(gb, 2) + get_bits(gb, 3);
    five += get_bits(gb, 4);
    if (get_bits1(gb)) skip_bits(gb, 4);
    if (get_bits1(gb)) skip_bits(gb, 4);
    if (get_bits1(gb)) skip_bits(gb, 3);
    skip_bits_long(gb, five * 5 + four * 4);
    align_get_bits(gb);
    skip_bits_long(gb, get_bits(gb, 8) * 8);
}

static void skip_data(GetBitContext *gb)
{
    const int is_aligned = get_bits1(gb);
    int bytes = get_bits(gb, 8);
    if (bytes == 255) bytes += get_bits(gb, 8);
    if (is_aligned) align_get_bits(gb);
    skip_bits_long(gb, bytes * 8);
}

static void skip_fill(GetBitContext *gb)
{
    int bytes = get_bits(gb, 4);
    if (bytes == 15) bytes += get_bits(gb, 8) - 1;
    skip_bits_long(gb, bytes * 8);
}

/* Reads one block. Returns whether there is sound in it, negative if it is none. */
static int read_block(GetBitContext *gb, const AacConfig *config)
{
    int has_sound = 0;
    while (get_bits_left(gb) >= 3) {
        static Ics ics;
        int type = get_bits(gb, 3), is_read = 1;
        if (type == TYPE_END) {
            align_get_bits(gb);
            return has_sound;
        }
        if (type != TYPE_FIL) skip_bits(gb, 4);
        if (type == TYPE_CPE) is_read = read_pair(gb, config, &ics);
        else if (type == TYPE_CCE) is_read = read_coupling(gb, config, &ics);
        else if (type == TYPE_DSE) skip_data(gb);
        else if (type == TYPE_PCE) skip_program_config(gb);
        else if (type == TYPE_FIL) skip_fill(gb);
        else is_read = read_ics(gb, config, &ics, 0);
        if (!is_read || get_bits_left(gb) < 0) return -1;
        has_sound |= type == TYPE_SCE || type == TYPE_CPE || type == TYPE_LFE;
    }
    return -1;
}

int aac_blocks(const uint8_t *data, int size, const AacConfig *config)
{
    GetBitContext gb;
    int blocks = 0;
    make_tables();
    if (init_get_bits8(&gb, data, size) < 0) return 0;
    while (get_bits_left(&gb) > 0) {
        int has_sound;
        if (show_bits(&gb, 12) == 0xfff) skip_bits_long(&gb, get_bits(&gb, 16) & 1 ? 40 : 56); /* ADTS header */
        has_sound = read_block(&gb, config);
        if (has_sound < 0) break;
        blocks += has_sound;
    }
    return blocks;
}
