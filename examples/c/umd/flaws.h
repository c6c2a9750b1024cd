/* What is wrong with the driver: nothing, unless it is built with -DFLAW=... */
#ifndef UMD_FLAWS_H
#define UMD_FLAWS_H


enum Flaw {
    NONE,
    RELEASES_BEFORE_FLUSH, /* the batch still names what is released */
    FREES_THE_LIST_ONLY,   /* all surfaces by list; the resource stays behind */
    FREES_TWICE,
    FREES_LOCKED,          /* a lock is kept for the next time, and never undone */
    FREES_ONE_OF_GROUP,    /* the first surface, and no other */
    FREES_ONE_BY_ONE,      /* surfaces by list, one by one; the resource stays behind */
    DEFERS_FOREVER,
    FREES_AND_FAILS,       /* released, but the answer is an error */
    FAILS_ODDLY,           /* nothing released, and an error that a destroy does not have */
    CALLS_AFTER_DEVICE,    /* a callback of a device that is gone */
    WRONG_THREAD,          /* work is handed over on a thread of its own */
    RESOURCE_AND_LIST      /* a release that names the resource and lists its surfaces */
};

#ifndef FLAW
#define FLAW NONE
#endif

#endif
