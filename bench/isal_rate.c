/* The cases of crates/core/raid/examples/parity_rate.rs through ISA-L: xor_gen for 8+1, pq_gen for 8+2.
 * Prints the same lines. Built by parity-against-isal.sh against Debian's libisal-dev. */
#include <isa-l/raid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DATA_STRIPS = 8 };
static const size_t cold_bytes = (size_t)512 << 20;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static double rate(int parities, size_t strip, size_t stripes)
{
    size_t vects = DATA_STRIPS + parities, stripe_bytes = strip * vects;
    unsigned char *memory;
    if (posix_memalign((void **)&memory, 4096, stripes * stripe_bytes))
        exit(1);
    for (size_t i = 0; i < stripes * stripe_bytes; i++)
        memory[i] = (unsigned char)(i * 31 >> 3);
    double done = 0, start = now(), seconds = 0;
    while (seconds < 0.4) {
        for (size_t s = 0; s < stripes; s++) {
            void *array[DATA_STRIPS + 2];
            for (size_t v = 0; v < vects; v++)
                array[v] = memory + s * stripe_bytes + v * strip;
            int bad = parities == 1 ? xor_gen(vects, strip, array) : pq_gen(vects, strip, array);
            if (bad)
                exit(2);
            done += 1;
        }
        seconds = now() - start;
    }
    free(memory);
    return done * strip * DATA_STRIPS / seconds / 1e9;
}

int main(void)
{
    size_t strips[] = {16 << 10, 64 << 10, 256 << 10, 1 << 20};
    for (int parities = 1; parities <= 2; parities++)
        for (int i = 0; i < 4; i++) {
            size_t stripe_bytes = strips[i] * (DATA_STRIPS + parities);
            printf("%d %zu warm %.2f\n", parities, strips[i], rate(parities, strips[i], 1));
            printf("%d %zu cold %.2f\n", parities, strips[i], rate(parities, strips[i], cold_bytes / stripe_bytes));
        }
    return 0;
}
