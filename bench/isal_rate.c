/* The cases of crates/array/raid/examples/parity_rate.rs through ISA-L: xor_gen for P, pq_gen for P and Q, and
 * ec_encode_data with the inverted matrix for what is missing, its tables made beforehand. Same arguments, memory,
 * slices of time and output. Built by parity-against-isal.sh against Debian's libisal-dev. */
#include <isa-l/erasure_code.h>
#include <isa-l/raid.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DATA_STRIPS = 8, WIDTH_MAX = DATA_STRIPS + 2, SLICES = 64 };
static const size_t cold_bytes = (size_t)512 << 20, bytes_per_look = (size_t)8 << 20;
static const double seconds_per_slice = 0.005;

struct job {
    const char *name;
    int width, missing_count, missing[2];
    int sources[DATA_STRIPS];
    unsigned char tables[2 * DATA_STRIPS * 32];
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* As ISA-L's own examples do it: the rows of the first strips that are left, inverted; a missing parity is its row
 * of the generator times that. */
static void prepare(struct job *job)
{
    unsigned char generator[WIDTH_MAX * DATA_STRIPS], left[DATA_STRIPS * DATA_STRIPS], inverse[DATA_STRIPS * DATA_STRIPS];
    unsigned char rows[2 * DATA_STRIPS];
    gf_gen_rs_matrix(generator, job->width, DATA_STRIPS);
    for (int place = 0, row = 0; row < DATA_STRIPS; place++) {
        if (place == job->missing[0] || (job->missing_count > 1 && place == job->missing[1]))
            continue;
        memcpy(left + row * DATA_STRIPS, generator + place * DATA_STRIPS, DATA_STRIPS);
        job->sources[row++] = place;
    }
    if (gf_invert_matrix(left, inverse, DATA_STRIPS))
        exit(3);
    for (int r = 0; r < job->missing_count; r++)
        for (int column = 0; column < DATA_STRIPS; column++) {
            unsigned char sum = 0;
            for (int i = 0; i < DATA_STRIPS; i++)
                sum ^= gf_mul(generator[job->missing[r] * DATA_STRIPS + i], inverse[i * DATA_STRIPS + column]);
            rows[r * DATA_STRIPS + column] = sum;
        }
    ec_init_tables(DATA_STRIPS, job->missing_count, rows, job->tables);
}

static void run(struct job *job, unsigned char *stripe, size_t strip)
{
    if (job->missing[0] >= DATA_STRIPS) {
        void *array[WIDTH_MAX];
        for (int place = 0; place < job->width; place++)
            array[place] = stripe + place * strip;
        if (job->missing_count == 1 ? xor_gen(job->width, strip, array) : pq_gen(job->width, strip, array))
            exit(2);
        return;
    }
    unsigned char *sources[DATA_STRIPS], *destinations[2];
    for (int i = 0; i < DATA_STRIPS; i++)
        sources[i] = stripe + job->sources[i] * strip;
    for (int r = 0; r < job->missing_count; r++)
        destinations[r] = stripe + job->missing[r] * strip;
    ec_encode_data(strip, DATA_STRIPS, job->missing_count, job->tables, sources, destinations);
}

static double rate(struct job *job, size_t strip, size_t stripes)
{
    size_t stripe_bytes = strip * job->width, at = 0;
    unsigned char *memory;
    if (posix_memalign((void **)&memory, 4096, stripes * stripe_bytes))
        exit(1);
    for (size_t i = 0; i < stripes * stripe_bytes; i++)
        memory[i] = (unsigned char)(i * 31 >> 3);
    size_t stripes_per_look = bytes_per_look / stripe_bytes;
    if (stripes_per_look == 0)
        stripes_per_look = 1;
    double best = 0;
    for (int slice = 0; slice < SLICES; slice++) {
        double done = 0, start = now(), seconds = 0;
        while (seconds < seconds_per_slice) {
            for (size_t s = 0; s < stripes_per_look; s++) {
                run(job, memory + at * stripe_bytes, strip);
                at = (at + 1) % stripes;
            }
            done += stripes_per_look;
            seconds = now() - start;
        }
        double gb_per_s = done * strip * DATA_STRIPS / seconds / 1e9;
        if (gb_per_s > best)
            best = gb_per_s;
    }
    free(memory);
    return best;
}

int main(int count, char **arguments)
{
    struct job jobs[] = {
        {"P", DATA_STRIPS + 1, 1, {8, 0}, {0}, {0}},  {"PQ", DATA_STRIPS + 2, 2, {8, 9}, {0}, {0}},
        {"D", DATA_STRIPS + 2, 1, {2, 0}, {0}, {0}},  {"DP", DATA_STRIPS + 2, 2, {2, 8}, {0}, {0}},
        {"DD", DATA_STRIPS + 2, 2, {2, 5}, {0}, {0}}, {"DQ", DATA_STRIPS + 2, 2, {2, 9}, {0}, {0}},
    };
    for (size_t j = 0; count == 4 && j < sizeof jobs / sizeof *jobs; j++) {
        if (strcmp(jobs[j].name, arguments[1]))
            continue;
        size_t strip = strtoul(arguments[2], NULL, 10);
        prepare(&jobs[j]);
        printf("%.2f\n", rate(&jobs[j], strip, strcmp(arguments[3], "cold") ? 1 : cold_bytes / (strip * jobs[j].width)));
        return 0;
    }
    fprintf(stderr, "usage: isal CASE STRIP_BYTES warm|cold\n");
    return 1;
}
