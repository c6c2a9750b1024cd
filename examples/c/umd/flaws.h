/* The flaw of the driver: none, unless it is built with -DFLAW=... */
#ifndef UMD_FLAWS_H
#define UMD_FLAWS_H


enum Flaw {
    NONE,
    RELEASES_BEFORE_FLUSH, /* the batch still lists the released resource */
    FREES_THE_LIST_ONLY,   /* all surfaces by list; the resource leaks */
    FREES_TWICE,
    FREES_LOCKED,          /* a cached lock is never unlocked */
    FREES_ONE_OF_GROUP,    /* the first surface only */
    FREES_ONE_BY_ONE,      /* surfaces by list, one by one; the resource leaks */
    DEFERS_FOREVER,
    FREES_AND_FAILS,       /* released, but an error is returned */
    FAILS_ODDLY,           /* not released, with an error that a destroy must not return */
    CALLS_AFTER_DEVICE,    /* a callback of a destroyed device */
    WRONG_THREAD,          /* work is submitted on another thread */
    RESOURCE_AND_LIST      /* a release that names the resource and lists its surfaces */
};

#ifndef FLAW
#define FLAW NONE
#endif

#endif
