/* The file of an instance, which is read by the process around it. */
#ifndef FILE_IO_H
#define FILE_IO_H

#include <libavformat/avformat.h>

/* Reads at most `size` bytes at `offset`: their number, 0 at the end, negative if the file cannot be read. */
__attribute__((import_module("file"), import_name("read"))) int read_file(double offset, uint8_t *to, int size);

/* Opens the file, of so many bytes; null if its format is unknown. Once per instance. */
AVFormatContext *open_file(double bytes);

#endif
