/* Drawing: by the GPU if it can, otherwise by the CPU. */
#ifndef UMD_DRAW_H
#define UMD_DRAW_H

#include "lock.h"

/* A rectangle in its surface: offset, row length, and number of rows. */
typedef struct Rows {
    uint64_t offset, length;
    UINT count;
} Rows;

static bool rows_of(const Surface *surface, const RECT *rect, Rows *rows)
{
    if (rect->left < 0 || rect->top < 0 || rect->left >= rect->right
        || rect->top >= rect->bottom) {
        return false;
    }
    rows->offset = (uint64_t)rect->top * surface->pitch + (uint64_t)rect->left * PIXEL;
    rows->length = (uint64_t)(rect->right - rect->left) * PIXEL;
    rows->count = (UINT)(rect->bottom - rect->top);
    if (surface->loose) { /* Then the rectangle is the whole surface. */
        *rows = (Rows){.length = rows->length * rows->count, .count = 1};
        return rows->length <= surface->bytes;
    }
    return (UINT)rect->right <= surface->width && (UINT)rect->bottom <= surface->height;
}

/* Rows without a gap are one row. */
static Rows joined(Rows rows, const Surface *surface)
{
    if (rows.length == surface->pitch) {
        rows.length *= rows.count;
        rows.count = 1;
    }
    return rows;
}

static HRESULT APIENTRY color_fill(HANDLE handle, const D3DDDIARG_COLORFILL *args)
{
    Device *device = (Device *)handle;
    Resource *resource = (Resource *)args->hResource;
    Surface *surface = surface_of(resource, args->SubResourceIndex);
    Rows rows;
    if (surface == NULL || !rows_of(surface, &args->DstRect, &rows)) {
        return E_INVALIDARG;
    }
    uint8_t value = (uint8_t)args->Color;
    HRESULT result = S_OK;
    /* The GPU fills with one byte. The CPU fills other colors and other memory. */
    if (surface->system == NULL && args->Color == value * 0x01010101u) {
        rows = joined(rows, surface);
        for (UINT row = 0; row < rows.count && SUCCEEDED(result); row++) {
            uint64_t offset = rows.offset + (uint64_t)row * surface->pitch;
            result = fill(device, resource, surface, offset, rows.length, value);
        }
        return result;
    }
    uint8_t *bytes;
    result = borrow(device, resource, surface, &bytes);
    if (FAILED(result)) {
        return result;
    }
    for (UINT row = 0; row < rows.count; row++) {
        uint8_t *to = bytes + rows.offset + (size_t)row * surface->pitch;
        for (uint64_t at = 0; at < rows.length; at += PIXEL) {
            memcpy(to + at, &args->Color, PIXEL);
        }
    }
    return give_back(device, surface);
}

static HRESULT APIENTRY blt(HANDLE handle, const D3DDDIARG_BLT *args)
{
    Device *device = (Device *)handle;
    Resource *from = (Resource *)args->hSrcResource, *to = (Resource *)args->hDstResource;
    Surface *source = surface_of(from, args->SrcSubResourceIndex);
    Surface *target = surface_of(to, args->DstSubResourceIndex);
    Rows read, written;
    if (source == NULL || target == NULL || !rows_of(source, &args->SrcRect, &read)
        || !rows_of(target, &args->DstRect, &written)) {
        return E_INVALIDARG;
    }
    if (joined(read, source).length == joined(written, target).length) {
        read = joined(read, source);
        written = joined(written, target);
    }
    if (read.length != written.length || read.count != written.count) {
        return E_NOTIMPL; /* Stretching is not supported. */
    }
    HRESULT result = S_OK;
    if (source->system == NULL && target->system == NULL) {
        for (UINT row = 0; row < read.count && SUCCEEDED(result); row++) {
            uint64_t here = read.offset + (uint64_t)row * source->pitch;
            uint64_t there = written.offset + (uint64_t)row * target->pitch;
            result = copy(device, from, source, here, to, target, there, read.length);
        }
        return result;
    }
    /* One surface or both are in system memory. */
    uint8_t *source_bytes, *target_bytes;
    result = borrow(device, from, source, &source_bytes);
    if (FAILED(result)) {
        return result;
    }
    result = borrow(device, to, target, &target_bytes);
    if (SUCCEEDED(result)) {
        for (UINT row = 0; row < read.count; row++) {
            memmove(target_bytes + written.offset + (size_t)row * target->pitch,
                    source_bytes + read.offset + (size_t)row * source->pitch, read.length);
        }
        result = give_back(device, target);
    }
    return both(result, give_back(device, source));
}

#endif
