/*
 * Private data for the built-in driver of Windtunnel, passed in pPrivateDriverData.
 * Numbers are little endian, as on all supported machines.
 */
#ifndef WINDTUNNEL_SOFTGPU_H
#define WINDTUNNEL_SOFTGPU_H

#include <stdint.h>
#include <string.h>

/* The size of an allocation description, in bytes. */
#define WINDTUNNEL_DESCRIPTION_SIZE 16

/* The sizes of a fill packet and a copy packet, in bytes. */
#define WINDTUNNEL_FILL_SIZE 29
#define WINDTUNNEL_COPY_SIZE 40

/* Describes an allocation of `bytes` bytes. */
static inline void windtunnel_describe(uint8_t to[WINDTUNNEL_DESCRIPTION_SIZE], uint64_t bytes)
{
    const uint32_t version = 1;
    memcpy(to, "WTSG", 4);
    memcpy(to + 4, &version, 4);
    memcpy(to + 8, &bytes, 8);
}

/* A packet that sets bytes of an allocation to a value. */
static inline void windtunnel_fill(uint8_t to[WINDTUNNEL_FILL_SIZE], uint32_t target,
                                   uint64_t offset, uint64_t length, uint8_t value)
{
    const uint32_t count = 1, fill = 1;
    memcpy(to, &count, 4);
    memcpy(to + 4, &fill, 4);
    memcpy(to + 8, &target, 4);
    memcpy(to + 12, &offset, 8);
    memcpy(to + 20, &length, 8);
    to[28] = value;
}

/* A packet that copies bytes of one allocation to another. */
static inline void windtunnel_copy(uint8_t to[WINDTUNNEL_COPY_SIZE], uint32_t from_target,
                                   uint64_t from_offset, uint32_t to_target, uint64_t to_offset,
                                   uint64_t length)
{
    const uint32_t count = 1, copy = 2;
    memcpy(to, &count, 4);
    memcpy(to + 4, &copy, 4);
    memcpy(to + 8, &from_target, 4);
    memcpy(to + 12, &from_offset, 8);
    memcpy(to + 20, &to_target, 4);
    memcpy(to + 24, &to_offset, 8);
    memcpy(to + 32, &length, 8);
}

#endif
