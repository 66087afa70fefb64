/*
 * Measures a media file with FFmpeg's demuxers and parsers; no codec is opened. Compiled to WebAssembly by build.sh. Memory
 * is not freed: each file is measured by an instance of its own.
 */
#include "aac-blocks.h"
#include "file-io.h"
#include <float.h>
#include <libavcodec/aac.h>
#include <libavcodec/ac3_parser.h>
#include <libavcodec/avcodec.h>
#include <libavcodec/flac_parse.h>
#include <libavcodec/get_bits.h>
#include <libavcodec/mpeg4audio.h>
#include <libavcodec/mpegaudiodecheader.h>
#include <libavformat/internal.h>
#include <libavutil/avstring.h>
#include <libavutil/crc.h>
#include <libavutil/intreadwrite.h>
#include <wasm_simd128.h>

#define MAX_TRACKS 64
#define IO_BYTES 65536
/* ffmpeg's -dts_delta_threshold and -dts_error_threshold: it takes larger steps for errors of the file, not for silence. */
#define MAX_STEP_S 10.0
#define MAX_ERROR_S (30 * 3600.0)
/* Two timestamps that are further apart than ffmpeg's tolerance run backwards. */
#define MAX_BACK_S 0.1
/* Larger gaps are parts that are missing, but in MP4, where players wait. */
#define MAX_GAP_S 0.1
/* ffmpeg looks for other codecs in the first 5 MB of samples, and at most one packet more. */
#define PROBED_BYTES 6e6
#define MAX_SAMPLE_RATE 192000
#define MAX_PCM_CHANNELS 32
#define MAX_IMA_INDEX 88
#define MAX_MS_INDEX 6

typedef struct Track {
    AVCodecParserContext *parser;
    AVCodecContext *parsed;
    int rate, adts_rate;     /* of the samples counted, in hertz */
    double skip_s;           /* what remains of what the container says to leave out */
    double start_s, end_s;   /* as presented */
    double decoded_s;        /* the sum of all packets */
    double next_s, last_s;   /* when the next packet is due, and when the last one was */
    int packets, untimed;
} Track;

typedef struct Length {
    double seconds, sound_seconds;
    int has_video, has_sound;
    char container[32], codec[32];
    int is_doubtful;
    double decoded_seconds; /* of sound, by its packets alone */
} Length;

static Track tracks[MAX_TRACKS];
static Length length;
static double file_bytes;
static int is_doubtful; /* whether decoders may refuse some of what is counted */
static int is_kept;     /* whether it counts even so */
static int is_unclear; /* whether a decoder may find more than is counted */
/* In formats whose times may start anew, all tracks are moved together. */
static double moved_s, last_s;

static const int aac_rates[16] = { 96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350 };

/* AAC in ADTS frames (ISO/IEC 13818-7), or raw with an AudioSpecificConfig (ISO/IEC 14496-3), before spectral band replication. */
static int aac_samples(Track *t, const AVCodecParameters *par, const AVPacket *pkt)
{
    MPEG4AudioConfig config = { 0 };
    AacConfig coded = { 0 };
    int is_adts = pkt->size >= 7 && (AV_RB16(pkt->data) & 0xfff6) == 0xfff0;
    int rate = is_adts ? aac_rates[(pkt->data[2] >> 2) & 15] : 0;
    int stated_blocks = rate ? (pkt->data[6] & 3) + 1 : 1, samples = 1024, blocks;
    if (rate) {
        t->rate = t->adts_rate = rate;
        coded.object_type = (pkt->data[2] >> 6) + 1;
        coded.sampling_index = (pkt->data[2] >> 2) & 15;
    } else if (par->extradata_size && avpriv_mpeg4audio_get_config2(&config, par->extradata, par->extradata_size, 1, NULL) >= 0 && config.sample_rate > 0) {
        t->rate = config.sample_rate;
        /* A decoder may keep the rate of an ADTS frame. */
        if (t->adts_rate) t->rate = FFMIN(t->rate, t->adts_rate);
        coded.object_type = config.object_type;
        coded.sampling_index = config.sampling_index;
        coded.is_960 = config.frame_length_short;
    } else t->rate = t->adts_rate ? FFMIN(par->sample_rate, t->adts_rate) : par->sample_rate;
    if (coded.is_960) samples = 960;
    /* Of other object types, a block has 6,144 bits a channel at most: more are several. */
    if (coded.object_type != AOT_AAC_MAIN && coded.object_type != AOT_AAC_LC && coded.object_type != AOT_AAC_LTP) {
        if (!rate && pkt->size > 768 * FFMAX(par->ch_layout.nb_channels, 2)) is_unclear = 1;
        return stated_blocks * samples;
    }
    if (coded.sampling_index > 12) return stated_blocks * samples;
    blocks = aac_blocks(pkt->data, pkt->size, &coded);
    if (blocks < stated_blocks) is_doubtful = 1;
    return FFMAX(stated_blocks, blocks) * samples;
}

/* The frames of MPEG layers I to III in a packet (ISO/IEC 11172-3 and 13818-3). */
static int mpeg_samples(Track *t, const AVPacket *pkt)
{
    int samples = 0;
    for (int at = 0; at + 4 <= pkt->size;) {
        MPADecodeHeader frame;
        if (avpriv_mpegaudio_decode_header(&frame, AV_RB32(pkt->data + at)) || frame.frame_size <= 0) break;
        t->rate = frame.sample_rate;
        samples += frame.layer == 1 ? 384 : frame.layer == 3 && frame.lsf ? 576 : 1152;
        at += frame.frame_size;
        if (at > pkt->size) is_doubtful = 1;
    }
    if (!samples) is_doubtful = 1;
    return samples;
}

/* Windows Media Audio: a packet begins with the number of its frames if they may cross packets. */
static int wma_samples(const AVCodecParameters *par, const AVPacket *pkt)
{
    int at = par->codec_id == AV_CODEC_ID_WMAV2 ? 4 : 2;
    int has_reservoir = par->extradata_size >= at + 2 && AV_RL16(par->extradata + at) & 2;
    int rate = par->sample_rate;
    int frame = rate <= 16000 ? 512 : rate <= 22050 || (rate <= 32000 && par->codec_id == AV_CODEC_ID_WMAV1) ? 1024 : 2048;
    return (has_reservoir && pkt->size > 0 ? pkt->data[0] & 15 : 1) * frame;
}

/* AMR (3GPP TS 26.101 and 26.201): a packet may hold several frames, whose types tell their lengths. */
static int amr_samples(const AVCodecParameters *par, const AVPacket *pkt)
{
    static const uint8_t narrow[16] = { 13, 14, 16, 18, 20, 21, 27, 32, 6, 6, 6, 6, 1, 1, 1, 1 };
    static const uint8_t wide[16] = { 18, 24, 33, 37, 41, 47, 51, 59, 61, 6, 6, 1, 1, 1, 1, 1 };
    const uint8_t *sizes = par->codec_id == AV_CODEC_ID_AMR_WB ? wide : narrow;
    int frames = 0;
    for (int at = 0; at < pkt->size; at += sizes[(pkt->data[at] >> 3) & 15]) frames++;
    return frames * (par->codec_id == AV_CODEC_ID_AMR_WB ? 320 : 160);
}

/* ADPCM in WAV: a block begins with the state of each channel, which decoders check. */
static int adpcm_samples(AVCodecParameters *par, const AVPacket *pkt)
{
    int is_ima = par->codec_id == AV_CODEC_ID_ADPCM_IMA_WAV, channels = par->ch_layout.nb_channels;
    int head = (is_ima ? 4 : 7) * channels, step = par->block_align < head ? pkt->size : par->block_align;
    for (int block = 0; step > 0 && block + head <= pkt->size; block += step)
        for (int i = 0; i < channels; i++) {
            const uint8_t *state = pkt->data + block + (is_ima ? 4 * i : i);
            if (is_ima ? AV_RL16(state + 2) > MAX_IMA_INDEX : *state > MAX_MS_INDEX) is_doubtful = 1;
        }
    return av_get_audio_frame_duration2(par, pkt->size);
}

/* By the parsers that decoders share. */
static int parsed_samples(Track *t, const AVCodecParameters *par, const AVPacket *pkt)
{
    uint8_t *out;
    int size;
    if (!t->parser) {
        t->parser = av_parser_init(par->codec_id);
        t->parsed = avcodec_alloc_context3(NULL);
        if (!t->parser || !t->parsed || avcodec_parameters_to_context(t->parsed, par) < 0) return 0;
        t->parser->flags |= PARSER_FLAG_COMPLETE_FRAMES;
    }
    t->parser->duration = 0;
    av_parser_parse2(t->parser, t->parsed, &out, &size, pkt->data, pkt->size, pkt->pts, pkt->dts, pkt->pos);
    t->rate = t->parsed->sample_rate;
    return t->parser->duration;
}

/* AC-3 and E-AC-3 (ETSI TS 102 366): the frames in a packet, without those that add channels or programs to others. */
static int ac3_samples(Track *t, const AVCodecParameters *par, const AVPacket *pkt)
{
    static const int blocks_of[4] = { 1, 2, 3, 6 };
    int samples = 0, first = parsed_samples(t, par, pkt);
    for (int at = 0; at + 8 <= pkt->size;) {
        const uint8_t *frame = pkt->data + at;
        uint8_t id;
        uint16_t bytes;
        /* Decoders search for the next frame. */
        if (AV_RB16(frame) != 0x0b77 || av_ac3_parse_header(frame, pkt->size - at, &id, &bytes) < 0 || bytes == 0) {
            at++;
            continue;
        }
        at += bytes;
        if (id <= 10) samples += 1536;
        else if (frame[2] >> 6 != 1 && !(frame[2] >> 3 & 7)) samples += 256 * (frame[4] >> 6 == 3 ? 6 : blocks_of[frame[4] >> 4 & 3]);
    }
    return FFMAX(first, samples);
}

/* FLAC (RFC 9639): further frames in a packet begin where the checksum of the one before ends. */
static int flac_samples(Track *t, const AVCodecParameters *par, const AVPacket *pkt)
{
    int samples = parsed_samples(t, par, pkt), from = 0;
    uint32_t crc = 0;
    if (av_crc(av_crc_get_table(AV_CRC_16_ANSI), 0, pkt->data, pkt->size)) {
        /* A frame that was cut off is for the decoder to tell; of others that are damaged, versions of ffmpeg play more or less. */
        if (pkt->pos >= 0 && pkt->pos + pkt->size >= file_bytes) is_doubtful = 1;
        else is_kept = 1;
    }
    for (int at = 1; at + 6 <= pkt->size; at++) {
        GetBitContext gb;
        FLACFrameInfo frame;
        if (pkt->data[at] != 0xff || (pkt->data[at + 1] & 0xfe) != 0xf8) continue;
        if (init_get_bits8(&gb, pkt->data + at, pkt->size - at) < 0 || ff_flac_decode_frame_header(NULL, &gb, &frame, 0) < 0) continue;
        crc = av_crc(av_crc_get_table(AV_CRC_16_ANSI), crc, pkt->data + from, at - from);
        from = at;
        if (crc) continue;
        samples += frame.samplerate ? av_rescale(frame.blocksize, t->rate, frame.samplerate) : frame.blocksize;
    }
    return samples;
}

/* The number of samples that a packet decodes to, at `t->rate`; 0 if it does not tell, negative if it is broken. */
static int samples_of(Track *t, AVCodecParameters *par, const AVPacket *pkt)
{
    t->rate = par->sample_rate;
    switch (par->codec_id) {
    case AV_CODEC_ID_AAC:
        return aac_samples(t, par, pkt);
    case AV_CODEC_ID_MP1:
    case AV_CODEC_ID_MP2:
    case AV_CODEC_ID_MP3:
        return mpeg_samples(t, pkt);
    case AV_CODEC_ID_AMR_NB:
    case AV_CODEC_ID_AMR_WB:
        return amr_samples(par, pkt);
    case AV_CODEC_ID_WMAV1:
    case AV_CODEC_ID_WMAV2:
        return wma_samples(par, pkt);
    case AV_CODEC_ID_AC3:
    case AV_CODEC_ID_EAC3:
        return ac3_samples(t, par, pkt);
    case AV_CODEC_ID_FLAC:
        return flac_samples(t, par, pkt);
    case AV_CODEC_ID_ADPCM_IMA_WAV:
    case AV_CODEC_ID_ADPCM_MS:
        return adpcm_samples(par, pkt);
    case AV_CODEC_ID_VORBIS:
        is_doubtful = 1; /* Only a decoder reads its code books. */
        return parsed_samples(t, par, pkt);
    case AV_CODEC_ID_OPUS:
    case AV_CODEC_ID_DTS:
        return parsed_samples(t, par, pkt);
    default:
        return av_get_audio_frame_duration2(par, pkt->size);
    }
}

/*
 * What is heard of a packet: ffmpeg decodes what is before the range of an edit list and the delay of an encoder, and leaves
 * it out. What it leaves out of the last packet depends on its version: that is counted whole. The delay that the encoder
 * of an MP3 file states is counted: other decoders do not leave it out, and at low rates it is a seventh of a second.
 */
static double heard(Track *t, const AVCodecParameters *par, const AVPacket *pkt, double whole_s)
{
    size_t size;
    const uint8_t *skip = av_packet_get_side_data(pkt, AV_PKT_DATA_SKIP_SAMPLES, &size);
    double skipped_s;
    if (skip && size >= 10 && par->sample_rate > 0 && par->codec_id != AV_CODEC_ID_MP3) t->skip_s = AV_RL32(skip) / (double)par->sample_rate;
    skipped_s = FFMIN(t->skip_s, whole_s);
    t->skip_s -= skipped_s;
    return pkt->flags & AV_PKT_FLAG_DISCARD ? 0 : whole_s - skipped_s;
}

static int is_mp4(const AVFormatContext *fmt)
{
    return !strncmp(fmt->iformat->name, "mov", 3);
}

/* When a packet is presented, without the steps that ffmpeg takes for errors. */
static double time_of(Track *t, const AVFormatContext *fmt, const AVStream *st, const AVPacket *pkt)
{
    double base = av_q2d(st->time_base), dts, step;
    int has_begun = t->packets || last_s != -DBL_MAX;
    if (pkt->dts == AV_NOPTS_VALUE && pkt->pts == AV_NOPTS_VALUE) return t->next_s;
    dts = (pkt->dts != AV_NOPTS_VALUE ? pkt->dts : pkt->pts) * base + moved_s;
    step = has_begun ? dts - (t->packets ? t->next_s : last_s) : 0;
    if (fmt->iformat->flags & AVFMT_TS_DISCONT) {
        if (step > MAX_STEP_S || step < -MAX_STEP_S || (t->packets && dts + MAX_BACK_S < t->last_s)) {
            moved_s -= step;
            dts -= step;
        }
    } else if (t->packets && (step > MAX_ERROR_S || step < -MAX_ERROR_S)) return t->next_s;
    t->last_s = last_s = dts;
    return pkt->pts == AV_NOPTS_VALUE ? dts : pkt->pts * base + moved_s;
}

static void add_packet(Track *t, const AVFormatContext *fmt, const AVStream *st, const AVPacket *pkt)
{
    int is_sound = st->codecpar->codec_type == AVMEDIA_TYPE_AUDIO;
    int samples = is_sound ? samples_of(t, st->codecpar, pkt) : 0;
    double whole_s = samples > 0 && t->rate > 0 ? samples / (double)t->rate : FFMAX(0, pkt->duration) * av_q2d(st->time_base);
    double at_s = samples < 0 ? 0 : time_of(t, fmt, st, pkt);
    double heard_s = is_sound ? heard(t, st->codecpar, pkt, whole_s) : pkt->flags & AV_PKT_FLAG_DISCARD ? 0 : whole_s;
    if (is_sound && (samples < 0 || whole_s == 0 || pkt->flags & AV_PKT_FLAG_CORRUPT || st->codecpar->codec_id == AV_CODEC_ID_NONE)) is_doubtful = 1;
    if (is_sound && t->packets && at_s > t->next_s + MAX_GAP_S && !is_mp4(fmt)) is_doubtful = 1;
    if (samples < 0) return;
    t->next_s = at_s + whole_s;
    t->packets++;
    if (pkt->flags & AV_PKT_FLAG_DISCARD || (whole_s > 0 && heard_s <= 0)) return;
    if (whole_s == 0) t->untimed++;
    t->decoded_s += heard_s;
    t->start_s = FFMIN(t->start_s, at_s + whole_s - heard_s);
    t->end_s = FFMAX(t->end_s, at_s + whole_s);
}

/* The video of an MP4 file is not read: its tables tell the times of its packets. */
static void add_index(Track *t, AVStream *st)
{
    double base = av_q2d(st->time_base);
    int count = avformat_index_get_entries_count(st);
    for (int i = 0; i < count; i++) {
        const AVIndexEntry *entry = avformat_index_get_entry(st, i);
        if (entry->flags & AVINDEX_DISCARD_FRAME || entry->pos + entry->size > file_bytes) continue;
        t->packets++;
        t->untimed++;
        t->start_s = FFMIN(t->start_s, entry->timestamp * base);
        t->end_s = FFMAX(t->end_s, entry->timestamp * base);
    }
    if (t->packets == 1) t->end_s += FFMAX(0, st->duration) * base;
    /* They are the times of decoding. */
    if (t->packets && st->start_time != AV_NOPTS_VALUE) {
        t->end_s += st->start_time * base - t->start_s;
        t->start_s = st->start_time * base;
    }
}

static int is_sound(const AVStream *st)
{
    return st->codecpar->codec_type == AVMEDIA_TYPE_AUDIO;
}

/* Cover art and the pictures of chapters are not. */
static int is_video(const AVStream *st)
{
    return st->codecpar->codec_type == AVMEDIA_TYPE_VIDEO && !(st->disposition & (AV_DISPOSITION_ATTACHED_PIC | AV_DISPOSITION_TIMED_THUMBNAILS));
}

/* Tracks that are not read: subtitles, pictures, and the video of MP4 files. */
static void choose_tracks(AVFormatContext *fmt)
{
    for (unsigned i = 0; i < fmt->nb_streams; i++)
        if (!is_sound(fmt->streams[i]) && (is_mp4(fmt) || !is_video(fmt->streams[i]))) fmt->streams[i]->discard = AVDISCARD_ALL;
}

/* Whether the header describes all tracks. */
static int is_described(const AVFormatContext *fmt)
{
    if (fmt->ctx_flags & AVFMTCTX_NOHEADER) return 0;
    for (unsigned i = 0; i < fmt->nb_streams; i++)
        if (is_sound(fmt->streams[i]) && fmt->streams[i]->codecpar->sample_rate <= 0) return 0;
    return 1;
}

/* Whether a mark begins in so many bytes, which 18 may follow. */
static int has_mark(const uint8_t *b, int size, uint32_t mark)
{
    const v128_t b0 = wasm_i8x16_splat(mark >> 24), b1 = wasm_i8x16_splat(mark >> 16 & 255);
    const v128_t b2 = wasm_i8x16_splat(mark >> 8 & 255), b3 = wasm_i8x16_splat(mark & 255);
    v128_t found = wasm_i8x16_splat(0);
    for (int i = 0; i < size; i += 16) {
        v128_t first = wasm_v128_and(wasm_i8x16_eq(wasm_v128_load(b + i), b0), wasm_i8x16_eq(wasm_v128_load(b + i + 1), b1));
        v128_t second = wasm_v128_and(wasm_i8x16_eq(wasm_v128_load(b + i + 2), b2), wasm_i8x16_eq(wasm_v128_load(b + i + 3), b3));
        found = wasm_v128_or(found, wasm_v128_and(first, second));
    }
    return wasm_v128_any_true(found);
}

/* Whether 16-bit samples may be found to be DTS, AAC, AC-3 or MP3 by ffmpeg's probes: by what these need at least. */
static int may_be_coded(double at)
{
    /* The sync words of DTS in its byte orders and of its extensions, and another chunk of samples. */
    static const uint32_t marks[] = { 0x7ffe8001, 0xfe7f0180, 0x1fffe800, 0xff1f00e8, 0x64582025, 0x64617461 };
    static uint8_t bytes[IO_BYTES + 32];
    MPADecodeHeader frame;
    int is_silent = 1;
    for (double end = at + PROBED_BYTES; at < end;) {
        int size = read_file(at, bytes, IO_BYTES);
        if (size < 0) return 1;
        if (size < 4) break;
        at += size - 3;
        for (int i = 0; i < FF_ARRAY_ELEMS(marks); i++)
            if (has_mark(bytes, size - 3, marks[i])) return 1;
        /* The others are at the beginning, or after zeros. */
        for (int i = 0; is_silent && i < size - 3; i++) {
            uint32_t head = AV_RB32(bytes + i);
            if (!bytes[i]) continue;
            is_silent = 0;
            if (!avpriv_mpegaudio_decode_header(&frame, head) || (head >> 16 & 0xfff6) == 0xfff0 || head >> 21 == 0x2b7) return 1;
            if (head >> 16 == 0x0b77 || head >> 16 == 0x770b || head >> 16 == 0x0110 || head >> 8 == AV_RB24("ID3")) return 1;
        }
    }
    return 0;
}

/* Most of the time of a WAV file would go to probes for codecs in its samples. */
static void probe_less(AVFormatContext *fmt)
{
    const AVCodecParameters *par = fmt->nb_streams == 1 ? fmt->streams[0]->codecpar : NULL;
    if (!par || par->codec_id != AV_CODEC_ID_PCM_S16LE || par->sample_rate > MAX_SAMPLE_RATE || par->ch_layout.nb_channels > MAX_PCM_CHANNELS || par->block_align > 2 * MAX_PCM_CHANNELS) return;
    if (!may_be_coded(avio_tell(fmt->pb))) ffstream(fmt->streams[0])->request_probe = 0;
}

static void read_packets(AVFormatContext *fmt)
{
    AVPacket *pkt = av_packet_alloc();
    for (int error = pkt ? 0 : AVERROR(ENOMEM); error >= 0 || error == AVERROR(EAGAIN);) {
        choose_tracks(fmt); /* Tracks may appear later. */
        error = av_read_frame(fmt, pkt);
        if (error >= 0 && pkt->stream_index < MAX_TRACKS)
            add_packet(&tracks[pkt->stream_index], fmt, fmt->streams[pkt->stream_index], pkt);
        av_packet_unref(pkt);
    }
}

static void add_tracks(AVFormatContext *fmt)
{
    double start_s = DBL_MAX;
    unsigned count = FFMIN(fmt->nb_streams, MAX_TRACKS);
    for (unsigned i = 0; i < count; i++) {
        Track *t = &tracks[i];
        if (is_video(fmt->streams[i]) && fmt->streams[i]->discard == AVDISCARD_ALL) add_index(t, fmt->streams[i]);
        if (t->start_s == DBL_MAX) continue;
        /* Packets that do not state how long they are presented have the average. */
        if (t->untimed && t->packets > 1) t->end_s += (t->end_s - t->start_s) / (t->packets - 1);
        start_s = FFMIN(start_s, t->start_s);
    }
    for (unsigned i = 0; i < count; i++) {
        Track *t = &tracks[i];
        double seconds = FFMAX(t->end_s - start_s, t->decoded_s);
        if (t->start_s == DBL_MAX || seconds <= 0 || !(is_sound(fmt->streams[i]) || is_video(fmt->streams[i]))) continue;
        length.seconds = FFMAX(length.seconds, seconds);
        if (is_video(fmt->streams[i])) {
            length.has_video = 1;
            continue;
        }
        if (!length.has_sound) av_strlcpy(length.codec, avcodec_get_name(fmt->streams[i]->codecpar->codec_id), sizeof(length.codec));
        length.sound_seconds = FFMAX(length.sound_seconds, seconds);
        length.decoded_seconds += t->decoded_s;
        length.has_sound = 1;
    }
}

/* What the demuxers and parsers report is damage, but for what they report of sound files as well. */
static void note_fault(void *of, int level, const char *format, va_list values)
{
    static const char *const harmless[] = {
        "Estimating duration", "Could not find codec parameters", "nAvgBytesPerSec", "ignoring wrong sample_count",
        "Ignoring maximum wav data", "stream %d, timescale not set", "Discarding ID3 tags", "Format %s detected only", "filesize and duration",
    };
    /* The parser of FLAC, which reports without a context, finds headers where there are none: frames have checksums. */
    if (level > AV_LOG_WARNING || !of) return;
    for (int i = 0; i < FF_ARRAY_ELEMS(harmless); i++)
        if (av_strstart(format, harmless[i], NULL)) return;
    is_doubtful = 1;
}

/* Measures a file of so many bytes; null if it cannot be parsed for sure. Once per instance. */
__attribute__((export_name("measure"))) Length *measure(double bytes)
{
    AVFormatContext *fmt;
    file_bytes = bytes;
    last_s = -DBL_MAX;
    for (int i = 0; i < MAX_TRACKS; i++) tracks[i].start_s = DBL_MAX, tracks[i].end_s = -DBL_MAX;
    av_log_set_callback(note_fault);
    if (!(fmt = open_file(bytes))) return NULL;
    choose_tracks(fmt);
    probe_less(fmt);
    if (!is_described(fmt) && avformat_find_stream_info(fmt, NULL) < 0) return NULL;
    read_packets(fmt);
    if (is_unclear) return NULL;
    add_tracks(fmt);
    length.is_doubtful = is_doubtful && !is_kept;
    av_strlcpy(length.container, fmt->iformat->name, sizeof(length.container));
    return &length;
}
