#include "file-io.h"

#define IO_BYTES 65536

static double file_bytes, file_offset;

static int read_next(void *opaque, uint8_t *to, int size)
{
    int bytes = read_file(file_offset, to, size);
    if (bytes <= 0) return bytes < 0 ? AVERROR(EIO) : AVERROR_EOF;
    file_offset += bytes;
    return bytes;
}

static int64_t seek_to(void *opaque, int64_t offset, int whence)
{
    if (whence & AVSEEK_SIZE) return file_bytes;
    if ((whence & 3) == SEEK_CUR) offset += file_offset;
    if ((whence & 3) == SEEK_END) offset += file_bytes;
    if (offset < 0) return AVERROR(EINVAL);
    file_offset = offset;
    return offset;
}

AVFormatContext *open_file(double bytes)
{
    AVFormatContext *fmt = avformat_alloc_context();
    uint8_t *buffer = av_malloc(IO_BYTES);
    file_bytes = bytes;
    if (!fmt || !buffer || !(fmt->pb = avio_alloc_context(buffer, IO_BYTES, 0, NULL, read_next, NULL, seek_to))) return NULL;
    return avformat_open_input(&fmt, NULL, NULL, NULL) < 0 ? NULL : fmt;
}
