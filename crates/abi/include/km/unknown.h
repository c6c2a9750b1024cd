/* The base of interfaces, in C++. */
#ifndef WINDTUNNEL_UNKNOWN_H
#define WINDTUNNEL_UNKNOWN_H

#include <wdm.h>

#define STDMETHODCALLTYPE NTAPI
#define STDMETHODIMP NTSTATUS NTAPI
#define STDMETHODIMP_(type) type NTAPI
#ifdef __cplusplus
#define STDMETHOD(name) virtual NTSTATUS NTAPI name
#define STDMETHOD_(type, name) virtual type NTAPI name
#define PURE = 0
#define THIS_
#define THIS void
#define DECLARE_INTERFACE(name) struct name
#define DECLARE_INTERFACE_(name, base) struct name : public base

struct IUnknown {
    virtual NTSTATUS NTAPI QueryInterface(REFIID iid, PVOID *object) = 0;
    virtual ULONG NTAPI AddRef() = 0;
    virtual ULONG NTAPI Release() = 0;
};
typedef IUnknown *PUNKNOWN;
#else
typedef struct IUnknown *PUNKNOWN;
#endif

#endif
