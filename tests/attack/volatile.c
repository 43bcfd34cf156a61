// Devices with volatile write caches, as an nbdkit plugin: export mN is the file mN of a folder.
//
//     nbdkit volatile.so folder=DIR seed=N [keep=PERCENT] [lie=flush] [bad=N,OFFSET,LENGTH]
//
// The file is what survives a loss of power, which is SIGKILL of nbdkit. A write without FUA goes to memory; each of its
// sectors of 512 bytes reaches the file at once with a chance of PERCENT (50), so that a write is torn at sectors and later
// writes survive earlier ones; besides, some older sectors go with each write. A flush and FUA bring what they must.
// lie=flush acknowledges flushes and does nothing, for three in four of them: proof that the checks would notice.
// bad=: reads that touch this range of mN end in EIO until it has been written whole.
// Left out: sectors that are torn inside, writes that land elsewhere.
#define NBDKIT_API_VERSION 2
#include <errno.h>
#include <fcntl.h>
#include <nbdkit-plugin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_SERIALIZE_ALL_REQUESTS
#define SECTOR 512ULL
#define DEVICES 64

struct device {
    unsigned char *kept, *current, *dirty;
    uint64_t bytes, sectors;
};

static struct device devices[DEVICES];
static char *folder;
static unsigned seed = 1, keep_percent = 50;
static int lie_flush;
static int bad_device = -1;
static uint64_t bad_offset, bad_bytes;

static int config(const char *key, const char *value) {
    if (!strcmp(key, "folder")) return (folder = nbdkit_realpath(value)) ? 0 : -1;
    if (!strcmp(key, "seed")) return nbdkit_parse_unsigned(key, value, &seed);
    if (!strcmp(key, "keep")) return nbdkit_parse_unsigned(key, value, &keep_percent);
    if (!strcmp(key, "lie") && !strcmp(value, "flush")) return lie_flush = 1, 0;
    if (!strcmp(key, "bad") && sscanf(value, "%d,%lu,%lu", &bad_device, &bad_offset, &bad_bytes) == 3) return 0;
    nbdkit_error("no such setting: %s=%s", key, value);
    return -1;
}

static int get_ready(void) { return srand48(seed), 0; }

static int chance(unsigned percent) { return lrand48() % 100 < (long)percent; }

static int load(struct device *device, unsigned number) {
    char path[4096];
    struct stat stat;
    snprintf(path, sizeof path, "%s/m%u", folder, number);
    int file = open(path, O_RDWR);
    if (file < 0 || fstat(file, &stat)) return nbdkit_error("%s: %m", path), -1;
    device->bytes = stat.st_size;
    device->sectors = device->bytes / SECTOR;
    device->kept = mmap(NULL, device->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    device->current = malloc(device->bytes);
    device->dirty = calloc(1, device->sectors);
    close(file);
    if (device->kept == MAP_FAILED || !device->current || !device->dirty) return nbdkit_error("no memory"), -1;
    memcpy(device->current, device->kept, device->bytes);
    return 0;
}

static void *open_export(int readonly) {
    const char *name = nbdkit_export_name();
    unsigned number;
    if (sscanf(name, "m%u", &number) != 1 || number >= DEVICES) return nbdkit_error("no such device: %s", name), NULL;
    struct device *device = &devices[number];
    return device->current || !load(device, number) ? device : NULL;
}

static void keep(struct device *device, uint64_t sector) {
    if (!device->dirty[sector]) return;
    memcpy(device->kept + sector * SECTOR, device->current + sector * SECTOR, SECTOR);
    device->dirty[sector] = 0;
}

static int64_t get_size(void *handle) { return ((struct device *)handle)->bytes; }
static int can_fua(void *handle) { return NBDKIT_FUA_NATIVE; }
static int can_flush(void *handle) { return 1; }
static int can_multi_conn(void *handle) { return 1; }
static int block_size(void *handle, uint32_t *least, uint32_t *best, uint32_t *most) {
    *least = SECTOR, *best = 4096, *most = 32 << 20;
    return 0;
}

static int pread_device(void *handle, void *buffer, uint32_t bytes, uint64_t offset, uint32_t flags) {
    struct device *device = handle;
    int bad = bad_device >= 0 && device == &devices[bad_device];
    if (bad && offset < bad_offset + bad_bytes && offset + bytes > bad_offset) return nbdkit_set_error(EIO), -1;
    memcpy(buffer, device->current + offset, bytes);
    return 0;
}

static int pwrite_device(void *handle, const void *buffer, uint32_t bytes, uint64_t offset, uint32_t flags) {
    struct device *device = handle;
    uint64_t first = offset / SECTOR, end = (offset + bytes) / SECTOR;
    memcpy(device->current + offset, buffer, bytes);
    memset(device->dirty + first, 1, end - first);
    for (uint64_t sector = first; sector < end; sector++)
        if (flags & NBDKIT_FLAG_FUA || chance(keep_percent)) keep(device, sector);
    for (int older = 0; older < 4; older++) keep(device, lrand48() % device->sectors);
    if (bad_device >= 0 && device == &devices[bad_device] && offset <= bad_offset && offset + bytes >= bad_offset + bad_bytes)
        bad_device = -1;
    return 0;
}

static int flush_device(void *handle, uint32_t flags) {
    struct device *device = handle;
    if (lie_flush && lrand48() % 4) return 0;
    unsigned char *at = device->dirty, *end = at + device->sectors;
    while ((at = memchr(at, 1, end - at))) keep(device, at - device->dirty);
    return 0;
}

static struct nbdkit_plugin plugin = {
    .name = "volatile",
    .config = config,
    .get_ready = get_ready,
    .open = open_export,
    .get_size = get_size,
    .block_size = block_size,
    .can_fua = can_fua,
    .can_flush = can_flush,
    .can_multi_conn = can_multi_conn,
    .pread = pread_device,
    .pwrite = pwrite_device,
    .flush = flush_device,
};
NBDKIT_REGISTER_PLUGIN(plugin)
