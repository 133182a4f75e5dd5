/* A stand-in for NVIDIA's libnvidia-ml.so.1: the C interface that nvidia-ml-py calls, over a scenario in a file.
 *
 * FAKE_NVML names a file of lines `key=value`, mapped at nvmlInit, so a test can rewrite it between two readings. A key
 * is `gpuN.what` or `gpuN.migM.what`; a value `!N` makes the call return the error N (nvml.h), and a key that is not there
 * makes it return NVML_ERROR_NOT_SUPPORTED. Without FAKE_NVML there is no driver.
 *
 * Layouts are those of nvml.h. Performance counters (`gpm.METRIC`) are running totals in unit-seconds over `gpm.time`
 * seconds, as in the chip: a metric of two samples is the difference of totals over that of times.
 */
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
       DRIVER_NOT_LOADED = 9 };
enum { SIZE = 1 << 16, MIG_SLOTS = 8 };

typedef int Return;
typedef struct { int gpu, mig; } Device; /* mig -1: the whole chip */
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } Process;
typedef struct { unsigned id, scope; int64_t time, latency; unsigned type; Return returned; union { double d; unsigned long long ull; unsigned ui; } value; } FieldValue;
typedef struct { unsigned id; Return returned; double value; const char *names[3]; } Metric;
typedef struct { double time, totals[32]; } Counters;
typedef struct { unsigned version, count; Counters *first, *second; Metric metrics[]; } MetricsGet;

static const char *scenario;
static Device devices[64][MIG_SLOTS + 1];
static int allocated; /* counters' samples that nobody has given back */

static Return find(const Device *device, const char *what, char *value, size_t size)
{
    char key[96];
    if (!scenario) return UNINITIALIZED;
    if (!device) snprintf(key, sizeof key, "\n%s=", what);
    else if (device->mig < 0) snprintf(key, sizeof key, "\ngpu%d.%s=", device->gpu, what);
    else snprintf(key, sizeof key, "\ngpu%d.mig%d.%s=", device->gpu, device->mig, what);
    const char *at = strstr(scenario, key);
    if (!at) return NOT_SUPPORTED;
    at += strlen(key);
    size_t length = strcspn(at, "\n");
    if (*at == '!') return atoi(at + 1);
    if (length >= size) return INSUFFICIENT_SIZE;
    memcpy(value, at, length);
    value[length] = 0;
    return OK;
}

static Return number(const Device *device, const char *what, double *value)
{
    char text[64];
    Return returned = find(device, what, text, sizeof text);
    if (returned == OK) *value = atof(text);
    return returned;
}

static Return whole(const Device *device, const char *what, unsigned *value)
{
    double found;
    Return returned = number(device, what, &found);
    if (returned == OK) *value = (unsigned)found;
    return returned;
}

Return nvmlInitWithFlags(unsigned flags)
{
    const char *path = getenv("FAKE_NVML");
    int file = path ? open(path, O_RDONLY) : -1;
    (void)flags;
    if (file < 0) return DRIVER_NOT_LOADED;
    scenario = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    return OK;
}

Return nvmlShutdown(void)
{
    if (!scenario) return UNINITIALIZED;
    munmap((void *)scenario, SIZE);
    scenario = NULL;
    return OK;
}

int fakeAllocated(void) { return allocated; }

const char *nvmlErrorString(Return returned)
{
    static char text[32];
    snprintf(text, sizeof text, "fake error %d", returned);
    return text;
}

Return nvmlSystemGetDriverVersion(char *text, unsigned size) { return find(NULL, "driver", text, size); }
Return nvmlDeviceGetCount_v2(unsigned *count) { return whole(NULL, "count", count); }

Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **handle)
{
    double refused;
    Device *device = &devices[index][0];
    device->gpu = index, device->mig = -1;
    Return returned = number(device, "handle", &refused);
    *handle = device;
    return returned == NOT_SUPPORTED ? OK : returned;
}

Return nvmlDeviceGetName(Device *d, char *text, unsigned size) { return find(d, "name", text, size); }

Return nvmlDeviceGetMemoryInfo(Device *d, unsigned long long memory[3])
{
    double total, used;
    Return returned = number(d, "memory_used", &used);
    if (returned != OK) return returned;
    returned = number(d, "memory_total", &total);
    memory[0] = total, memory[1] = total - used, memory[2] = used;
    return returned;
}

/* processes=PID:BYTES,PID:BYTES; no BYTES: not available */
Return nvmlDeviceGetComputeRunningProcesses_v3(Device *d, unsigned *count, Process *processes)
{
    char text[256], *rest = text, *word;
    unsigned found = 0, room = processes ? *count : 0;
    Return returned = find(d, "processes", text, sizeof text);
    if (returned != OK) return returned;
    while ((word = strsep(&rest, ",")))
        if (*word) {
            char *bytes = strchr(word, ':');
            if (found < room)
                processes[found] = (Process){atoi(word), bytes ? strtoull(bytes + 1, NULL, 10) : ~0ULL, ~0u, ~0u};
            found++;
        }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : OK;
}

Return nvmlDeviceGetUtilizationRates(Device *d, unsigned rates[2])
{
    Return returned = whole(d, "utilization", &rates[0]);
    return returned != OK ? returned : whole(d, "memory_utilization", &rates[1]);
}

Return nvmlDeviceGetPowerUsage(Device *d, unsigned *milliwatts) { return whole(d, "power", milliwatts); }

Return nvmlDeviceGetClockInfo(Device *d, unsigned type, unsigned *megahertz)
{
    return whole(d, type == 1 ? "sm_clock" : type == 2 ? "memory_clock" : "?", megahertz);
}

Return nvmlDeviceGetTemperature(Device *d, unsigned sensor, unsigned *celsius)
{
    return sensor ? INVALID_ARGUMENT : whole(d, "temperature", celsius);
}

Return nvmlDeviceGetCurrentClocksEventReasons(Device *d, unsigned long long *reasons)
{
    double found;
    Return returned = number(d, "clocks_event", &found);
    if (returned == OK) *reasons = (unsigned long long)found;
    return returned;
}

Return nvmlDeviceGetFieldValues(Device *d, int count, FieldValue *values)
{
    for (int i = 0; i < count; i++) {
        double found = 0;
        values[i].returned = number(d, values[i].id == 83 ? "energy" : values[i].id == 186 ? "power_instant" : "?", &found);
        values[i].type = values[i].id == 83 ? 3 : 1; /* unsigned long long, unsigned int */
        if (values[i].type == 3) values[i].value.ull = found;
        else values[i].value.ui = found;
    }
    return OK;
}

Return nvmlDeviceGetMigMode(Device *d, unsigned *current, unsigned *pending)
{
    Return returned = whole(d, "mig_mode", current);
    *pending = *current;
    return returned;
}

Return nvmlDeviceGetMaxMigDeviceCount(Device *d, unsigned *count)
{
    (void)d;
    *count = MIG_SLOTS;
    return OK;
}

Return nvmlDeviceGetMigDeviceHandleByIndex(Device *d, unsigned index, Device **handle)
{
    unsigned instance;
    Device *mig = &devices[d->gpu][index + 1];
    mig->gpu = d->gpu, mig->mig = index;
    *handle = mig;
    return whole(mig, "instance", &instance) == OK ? OK : NOT_FOUND;
}

Return nvmlDeviceGetGpuInstanceId(Device *d, unsigned *id) { return whole(d, "instance", id); }

Return nvmlGpmQueryDeviceSupport(Device *d, unsigned support[2])
{
    double time;
    if (support[0] != 1) return INVALID_ARGUMENT;
    support[1] = number(d, "gpm", &time) == OK;
    return OK;
}

Return nvmlGpmSampleAlloc(Counters **sample)
{
    *sample = calloc(1, sizeof **sample);
    allocated++;
    return OK;
}

Return nvmlGpmSampleFree(Counters *sample)
{
    free(sample);
    allocated--;
    return OK;
}

Return nvmlGpmSampleGet(Device *d, Counters *sample)
{
    Return returned = number(d, "gpm.time", &sample->time);
    static const int counted[] = {2, 5, 10, 20, 21};
    for (int i = 0; i < 5; i++) {
        int metric = counted[i];
        char what[16];
        snprintf(what, sizeof what, "gpm.%d", metric);
        if (number(d, what, &sample->totals[metric]) != OK) sample->totals[metric] = NAN;
    }
    return returned;
}

Return nvmlGpmMigSampleGet(Device *d, unsigned instance, Counters *sample)
{
    for (int index = 0; index < MIG_SLOTS; index++) {
        Device mig = {d->gpu, index};
        unsigned found;
        if (whole(&mig, "instance", &found) == OK && found == instance) return nvmlGpmSampleGet(&mig, sample);
    }
    return NOT_FOUND;
}

Return nvmlGpmMetricsGet(MetricsGet *get)
{
    double seconds = get->second->time - get->first->time;
    if (get->version != 1 || seconds <= 0) return INVALID_ARGUMENT;
    for (unsigned i = 0; i < get->count; i++) {
        Metric *metric = &get->metrics[i];
        metric->value = (get->second->totals[metric->id] - get->first->totals[metric->id]) / seconds;
        metric->returned = isnan(metric->value) ? NOT_SUPPORTED : OK;
    }
    return OK;
}
