// X-table selectors: HEADGATE_GOVERNED_<kind>(text) expands to the text for hooked kinds, to nothing for pass.
#pragma once

#define HEADGATE_GOVERNED_alloc(...) __VA_ARGS__
#define HEADGATE_GOVERNED_free(...) __VA_ARGS__
#define HEADGATE_GOVERNED_launch(...) __VA_ARGS__
#define HEADGATE_GOVERNED_order(...) __VA_ARGS__
#define HEADGATE_GOVERNED_view(...) __VA_ARGS__
#define HEADGATE_GOVERNED_lifecycle(...) __VA_ARGS__
#define HEADGATE_GOVERNED_pass(...)
