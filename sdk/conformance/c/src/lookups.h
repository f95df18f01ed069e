/* What the conformance guest looks up and asks, when it is asked for it. */
#ifndef LOOKUPS_H
#define LOOKUPS_H

#include "weir.h"

void lookups(weir_ctx *ctx, weir_text asked);

#endif
