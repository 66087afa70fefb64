/*
 * Decodes the sound of a media file with FFmpeg's decoders: to convert it to FLAC, or to tell how long the sound of a
 * damaged file is. Compiled to WebAssembly by build.sh. Memory is not freed: each file has an instance of its own.
 */
#include "file-io.h"
#include <libavcodec/avcodec.h>
#include <libavutil/channel_layout.h>
#include <libavutil/intreadwrite.h>
#include <libavutil/mem.h>
#include <libswresample/swresample.h>

#define MAX_TRACKS 64
/* Models of speech recognition read 16 kHz, of one channel. */
#define MAX_RATE 16000
#define STREAMINFO_BYTES 34
/* "fLaC", and the header of its only block of metadata. */
#define HEAD_BYTES (8 + STREAMINFO_BYTES)

typedef struct Decoder {
    AVCodecContext *codec;
    double seconds;
} Decoder;

typedef struct Flac {
    AVCodecContext *codec;
    SwrContext *resampler;
    AVFrame *samples, *resampled; /* what the next block has so far, and what comes to it */
    AVPacket *block;
    uint8_t *bytes;
    int size, capacity, max_bytes;
    int error; /* the first one */
} Flac;

typedef struct Converted {
    uint8_t *bytes;
    int size;
    int is_too_large;
} Converted;

static Decoder decoders[MAX_TRACKS];
static int is_undecoded; /* whether a track has a codec without a decoder here */
static Flac flac;
static Converted converted;

/* Opens the decoder of a track of sound; null if there is none. */
static AVCodecContext *open_decoder(const AVStream *st)
{
    const AVCodec *codec = avcodec_find_decoder(st->codecpar->codec_id);
    AVCodecContext *ctx = codec ? avcodec_alloc_context3(codec) : NULL;
    if (!codec && st->codecpar->codec_id != AV_CODEC_ID_NONE) is_undecoded = 1;
    if (!ctx || avcodec_parameters_to_context(ctx, st->codecpar) < 0) return NULL;
    ctx->pkt_timebase = st->time_base;
    return avcodec_open2(ctx, codec, NULL) < 0 ? NULL : ctx;
}

static int append(const uint8_t *bytes, int size)
{
    if (size > flac.max_bytes - flac.size) {
        converted.is_too_large = 1;
        return AVERROR(ENOSPC);
    }
    if (flac.size + size > flac.capacity) {
        flac.capacity = FFMAX(flac.size + size, 2 * flac.capacity);
        if (av_reallocp(&flac.bytes, flac.capacity) < 0) return AVERROR(ENOMEM);
    }
    memcpy(flac.bytes + flac.size, bytes, size);
    flac.size += size;
    return 0;
}

/* The metadata, which is complete when the last block is encoded: its place is at the beginning. */
static void write_head(const uint8_t *streaminfo)
{
    memcpy(flac.bytes, "fLaC", 4);
    AV_WB32(flac.bytes + 4, 0x80000000 | STREAMINFO_BYTES);
    memcpy(flac.bytes + 8, streaminfo, STREAMINFO_BYTES);
}

/* Encodes a block; the last one, if it is null. */
static int encode(AVFrame *samples)
{
    size_t size;
    int error = avcodec_send_frame(flac.codec, samples);
    while (error >= 0 && (error = avcodec_receive_packet(flac.codec, flac.block)) >= 0) {
        const uint8_t *streaminfo = av_packet_get_side_data(flac.block, AV_PKT_DATA_NEW_EXTRADATA, &size);
        if (streaminfo && size == STREAMINFO_BYTES) write_head(streaminfo);
        if (flac.block->size) error = append(flac.block->data, flac.block->size);
        av_packet_unref(flac.block);
    }
    return error == AVERROR(EAGAIN) || error == AVERROR_EOF ? 0 : error;
}

static int start_flac(int rate)
{
    static const uint8_t no_head[HEAD_BYTES];
    AVCodecContext *ctx = flac.codec = avcodec_alloc_context3(avcodec_find_encoder(AV_CODEC_ID_FLAC));
    flac.samples = av_frame_alloc();
    flac.resampled = av_frame_alloc();
    flac.block = av_packet_alloc();
    if (!ctx || !flac.samples || !flac.resampled || !flac.block) return AVERROR(ENOMEM);
    ctx->sample_fmt = AV_SAMPLE_FMT_S16;
    ctx->sample_rate = FFMIN(rate, MAX_RATE);
    ctx->time_base = (AVRational){ 1, ctx->sample_rate };
    ctx->ch_layout = (AVChannelLayout)AV_CHANNEL_LAYOUT_MONO;
    if (avcodec_open2(ctx, ctx->codec, NULL) < 0) return AVERROR(EINVAL);
    flac.samples->format = ctx->sample_fmt;
    flac.samples->sample_rate = ctx->sample_rate;
    flac.samples->ch_layout = ctx->ch_layout;
    flac.samples->nb_samples = ctx->frame_size;
    if (av_frame_get_buffer(flac.samples, 0) < 0) return AVERROR(ENOMEM);
    flac.samples->nb_samples = 0;
    if (append(no_head, HEAD_BYTES) < 0) return AVERROR(ENOMEM);
    write_head(ctx->extradata);
    return 0;
}

/* Fills blocks with samples and encodes those that are full. */
static int add_samples(const int16_t *samples, int count)
{
    int error = 0;
    while (count > 0 && error >= 0) {
        AVFrame *block = flac.samples;
        int size = FFMIN(count, flac.codec->frame_size - block->nb_samples);
        if ((error = av_frame_make_writable(block)) < 0) break;
        memcpy((int16_t *)block->data[0] + block->nb_samples, samples, size * sizeof(*samples));
        block->nb_samples += size;
        samples += size;
        count -= size;
        if (block->nb_samples < flac.codec->frame_size) break;
        error = encode(block);
        block->nb_samples = 0;
    }
    return error;
}

/* Resamples what a decoder gives; what remains, if it is null. Its format may change. */
static int add_frame(const AVFrame *frame)
{
    int error = flac.codec ? 0 : start_flac(frame->sample_rate);
    AVFrame *out = flac.resampled;
    if (error < 0) return error;
    if (!flac.resampler && !(flac.resampler = swr_alloc())) return AVERROR(ENOMEM);
    av_frame_unref(out);
    out->format = AV_SAMPLE_FMT_S16;
    out->sample_rate = flac.codec->sample_rate;
    out->ch_layout = flac.codec->ch_layout;
    error = swr_convert_frame(flac.resampler, out, frame);
    if (error == AVERROR_INPUT_CHANGED) {
        if ((error = add_frame(NULL)) < 0) return error;
        swr_free(&flac.resampler);
        return add_frame(frame);
    }
    return error < 0 ? error : add_samples((const int16_t *)out->data[0], out->nb_samples);
}

/* Decodes a packet, or what a decoder holds back. What it refuses is left out, as ffmpeg does. */
static void decode(Decoder *d, const AVPacket *pkt, AVFrame *frame, int is_converted)
{
    if (avcodec_send_packet(d->codec, pkt) < 0) return;
    while (avcodec_receive_frame(d->codec, frame) >= 0) {
        if (frame->sample_rate > 0) {
            d->seconds += frame->nb_samples / (double)frame->sample_rate;
            if (is_converted && flac.error >= 0) flac.error = add_frame(frame);
        }
        av_frame_unref(frame);
    }
}

/* Decodes all tracks of sound, or the first one to FLAC; false without any. */
static int decode_file(double bytes, int is_converted)
{
    AVFormatContext *fmt;
    AVPacket *pkt = av_packet_alloc();
    AVFrame *frame = av_frame_alloc();
    int count = 0, first = -1;
    av_log_set_level(AV_LOG_QUIET);
    if (!pkt || !frame || !(fmt = open_file(bytes)) || avformat_find_stream_info(fmt, NULL) < 0) return 0;
    for (int error = 0; (error >= 0 || error == AVERROR(EAGAIN)) && flac.error >= 0; av_packet_unref(pkt)) {
        for (; count < FFMIN(fmt->nb_streams, MAX_TRACKS); count++) { /* Tracks may appear later. */
            AVStream *st = fmt->streams[count];
            int is_wanted = st->codecpar->codec_type == AVMEDIA_TYPE_AUDIO && !(is_converted && first >= 0);
            if (is_wanted && (decoders[count].codec = open_decoder(st)) && first < 0) first = count;
            if (!decoders[count].codec) st->discard = AVDISCARD_ALL;
        }
        error = av_read_frame(fmt, pkt);
        if (error >= 0 && pkt->stream_index < count && decoders[pkt->stream_index].codec)
            decode(&decoders[pkt->stream_index], pkt, frame, is_converted);
    }
    for (int i = 0; i < count; i++)
        if (decoders[i].codec) decode(&decoders[i], NULL, frame, is_converted);
    return first >= 0;
}

/* How long the sound of a damaged file is, in seconds: the longest of its tracks; negative if that cannot be told. */
__attribute__((export_name("decoded"))) double decoded(double bytes)
{
    double seconds = 0;
    decode_file(bytes, 0);
    for (int i = 0; i < MAX_TRACKS; i++) seconds = FFMAX(seconds, decoders[i].seconds);
    return is_undecoded ? -1 : seconds;
}

/* Converts a file to FLAC of at most so many bytes; null if it has no sound that can be decoded. */
__attribute__((export_name("convert"))) Converted *convert(double bytes, int max_bytes)
{
    flac.max_bytes = max_bytes;
    if (!decode_file(bytes, 1) || !flac.codec) return NULL;
    if (flac.error >= 0) flac.error = add_frame(NULL);
    if (flac.error >= 0 && flac.samples->nb_samples) flac.error = encode(flac.samples);
    if (flac.error >= 0) flac.error = encode(NULL);
    if (flac.error < 0 && !converted.is_too_large) return NULL;
    converted.bytes = flac.bytes;
    converted.size = flac.size;
    return &converted;
}
