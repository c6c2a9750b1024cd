/* The recorder of trace messages: 'windtunnel cc' makes the macros do nothing. */
#ifndef WINDTUNNEL_WPPRECORDER_H
#define WINDTUNNEL_WPPRECORDER_H

#include <wdm.h>

typedef struct RECORDER_LOG__ *RECORDER_LOG;
#define WPP_RECORDER_INIT(driver, path) ((void)0)

#endif
