#include <stdint.h>

/* What the length of a block depends on; `object_type` is AAC Main, LC or LTP. */
typedef struct AacConfig {
    int object_type, sampling_index, is_960;
} AacConfig;

/* The number of raw data blocks in a packet, with or without ADTS headers, that are not broken. */
int aac_blocks(const uint8_t *data, int size, const AacConfig *config);
