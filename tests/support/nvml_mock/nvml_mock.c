/* A libnvidia-ml.so.1 whose GPUs come from a text file, so that the real NVML adapter and the
 * real nvidia-ml-py run on a machine without a GPU.
 *
 * NVML_MOCK_FILE names the file. Its lines, in any number:
 *     init CODE                          nvmlInit answers CODE (an nvmlReturn_t)
 *     gpu UUID MEMORY_BYTES MIG NAME...  a GPU; MEMORY_BYTES "-": not supported;
 *                                        MIG 0 off, 1 on, "-": not supported
 *     broken CODE                        a GPU whose handle cannot be had: CODE
 *     mig UUID MIG_UUID BYTES INSTANCE   a MIG device of this GPU, with its GPU instance id
 *     process UUID PID                   a process that computes on this GPU
 *     hang 1                             nvmlDeviceGetCount returns when the line is gone
 *     count CODE                         nvmlDeviceGetCount answers CODE
 *     lost UUID CODE [FROM_S]            every question about this GPU gets CODE
 *     processes CODE                     the question for processes gets CODE
 *     set UUID FIELD VALUE [FROM_S]      what this GPU answers; "!CODE": an error instead
 *     xid UUID CODE [FROM_S]             an XID event, delivered once to each process
 * FROM_S: from so many seconds after nvmlInit on; of several lines of one field the last counts.
 * FIELD: utilization, memory_utilization (%), memory_used (bytes), temperature, slowdown, shutdown
 * (C), power, power_limit (mW), energy (mJ), sm_clock, memory_clock (MHz), reasons (bits),
 * ecc_corrected, ecc_uncorrected, remapped_corrected, remapped_uncorrected, remapped_pending,
 * remapped_failure, pcie_tx, pcie_rx (KB/s), sm_util (%), gpm_tx, gpm_rx (MiB/s). Not set: not
 * supported. The GPUs count from nvmlInit on, all other lines from the moment they are in the file.
 * Without the variable or the file there is no driver: nvmlInit answers 9.
 *
 * Compiled with -DOLD_DRIVER it lacks the functions that came after the driver 450.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    SUCCESS = 0,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMEOUT = 10
};
enum { MAX_GPUS = 64, MAX_LINES = 4096, XID_EVENT = 8 };

typedef struct {
    int handle_error;
    char uuid[96];
    char memory[32];
    char mig[8];
    char name[96];
    unsigned int instance; /* of a MIG device */
} mock_gpu;

typedef struct {
    unsigned long long total, free, used;
} mock_memory;

typedef struct {
    unsigned int pid;
    unsigned long long memory;
    unsigned int gpu_instance, compute_instance;
} mock_process;

typedef struct {
    mock_gpu *device;
    unsigned long long type, data;
    unsigned int gpu_instance, compute_instance;
} mock_event;

static mock_gpu gpus[MAX_GPUS], parts[MAX_GPUS];
static unsigned int gpu_count, part_count;
static unsigned int delivered; /* of the lines with an XID */
static struct timespec began;

/* The file as it is now: read again when it was changed or replaced. */
static char lines[MAX_LINES][160];
static unsigned int line_count;
static struct stat version;

/* The lines that begin with "set", parsed once: each question looks through all of them. */
typedef struct {
    char uuid[96], key[48], text[48];
    double from_s;
} mock_setting;

static mock_setting settings[MAX_LINES];
static unsigned int setting_count;

static int load(void) {
    const char *path = getenv("NVML_MOCK_FILE");
    struct stat now;
    if (!path || stat(path, &now))
        return 0;
    if (now.st_ino == version.st_ino && now.st_size == version.st_size &&
        !memcmp(&now.st_mtim, &version.st_mtim, sizeof now.st_mtim))
        return 1;
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    version = now;
    line_count = 0;
    while (line_count < MAX_LINES && fgets(lines[line_count], sizeof lines[0], file))
        line_count++;
    fclose(file);
    setting_count = 0;
    for (unsigned int i = 0; i < line_count; i++) {
        mock_setting *set = &settings[setting_count];
        set->from_s = 0;
        if (sscanf(lines[i], "set %95s %47s %47s %lf", set->uuid, set->key, set->text,
                   &set->from_s) >= 3)
            setting_count++;
    }
    return 1;
}

static double elapsed_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - began.tv_sec) + (double)(now.tv_nsec - began.tv_nsec) / 1e9;
}

static int read_gpus(void) {
    int init_answer = SUCCESS;
    if (!load())
        return DRIVER_NOT_LOADED;
    gpu_count = 0;
    for (unsigned int i = 0; i < line_count && gpu_count < MAX_GPUS; i++) {
        mock_gpu *gpu = &gpus[gpu_count];
        memset(gpu, 0, sizeof *gpu);
        if (sscanf(lines[i], "init %d", &init_answer) == 1)
            continue;
        if (sscanf(lines[i], "broken %d", &gpu->handle_error) == 1 ||
            sscanf(lines[i], "gpu %95s %31s %7s %95[^\n]", gpu->uuid, gpu->memory, gpu->mig,
                   gpu->name) == 4)
            gpu_count++;
    }
    part_count = 0;
    return init_answer;
}

static int copy_text(const char *text, char *buffer, unsigned int length) {
    snprintf(buffer, length, "%s", text);
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    clock_gettime(CLOCK_MONOTONIC, &began);
    return read_gpus();
}

int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int code) {
    static char text[32];
    snprintf(text, sizeof text, "mock error %d", code);
    return text;
}

static int number_after(const char *beginning) {
    int number = SUCCESS;
    if (!load())
        return SUCCESS;
    for (unsigned int i = 0; i < line_count; i++)
        if (!strncmp(lines[i], beginning, strlen(beginning)))
            number = atoi(lines[i] + strlen(beginning));
    return number;
}

/* CODE if this GPU is lost by now. */
static int lost(const mock_gpu *device) {
    char uuid[96];
    int code, answer = SUCCESS;
    load();
    for (unsigned int i = 0; i < line_count; i++) {
        double from_s = 0;
        if (lines[i][0] != 'l' || sscanf(lines[i], "lost %95s %d %lf", uuid, &code, &from_s) < 2)
            continue;
        if (!strcmp(uuid, device->uuid) && elapsed_s() >= from_s)
            answer = code;
    }
    return answer;
}

/* What the GPU answers for a field, or an error. */
static int field(const mock_gpu *device, const char *name, double *value) {
    char found[48] = "";
    int gone = lost(device);
    if (gone)
        return gone;
    for (unsigned int i = 0; i < setting_count; i++) {
        const mock_setting *set = &settings[i];
        if (!strcmp(set->key, name) && !strcmp(set->uuid, device->uuid) &&
            elapsed_s() >= set->from_s)
            strcpy(found, set->text);
    }
    if (!found[0])
        return NOT_SUPPORTED;
    if (found[0] == '!')
        return atoi(found + 1);
    *value = strtod(found, NULL);
    return SUCCESS;
}

static int as_uint(mock_gpu *device, const char *name, unsigned int *answer) {
    double value;
    int code = field(device, name, &value);
    if (code == SUCCESS)
        *answer = (unsigned int)(long long)value;
    return code;
}

static int as_ull(mock_gpu *device, const char *name, unsigned long long *answer) {
    double value;
    int code = field(device, name, &value);
    if (code == SUCCESS)
        *answer = value < 0 ? ~0ULL : (unsigned long long)value;
    return code;
}

int nvmlDeviceGetCount_v2(unsigned int *count) {
    while (number_after("hang "))
        usleep(10000);
    *count = gpu_count;
    return number_after("count ");
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, mock_gpu **device) {
    if (index >= gpu_count)
        return INVALID_ARGUMENT;
    *device = &gpus[index];
    return gpus[index].handle_error ? gpus[index].handle_error : lost(&gpus[index]);
}

int nvmlDeviceGetUUID(mock_gpu *device, char *buffer, unsigned int length) {
    int gone = lost(device);
    return gone ? gone : copy_text(device->uuid, buffer, length);
}

int nvmlDeviceGetName(mock_gpu *device, char *buffer, unsigned int length) {
    return copy_text(device->name, buffer, length);
}

int nvmlDeviceGetMemoryInfo(mock_gpu *device, mock_memory *memory) {
    unsigned long long used = 0;
    int code = as_ull(device, "memory_used", &used);
    if (code != SUCCESS && code != NOT_SUPPORTED)
        return code;
    if (device->memory[0] == '-')
        return NOT_SUPPORTED;
    memory->total = strtoull(device->memory, NULL, 10);
    memory->used = used;
    memory->free = memory->total - used;
    return SUCCESS;
}

int nvmlDeviceGetMigMode(mock_gpu *device, unsigned int *current, unsigned int *pending) {
    if (device->mig[0] == '-')
        return NOT_SUPPORTED;
    *current = *pending = device->mig[0] == '1';
    return SUCCESS;
}

/* Read anew for each call: a test changes the file while the library is loaded. */
int nvmlDeviceGetComputeRunningProcesses_v3(mock_gpu *device, unsigned int *count,
                                            mock_process *processes) {
    char uuid[96];
    unsigned int pid, found = 0, room = *count;
    int gone = lost(device), answer = gone ? gone : number_after("processes ");
    if (answer)
        return answer;
    for (unsigned int i = 0; i < line_count; i++) {
        if (sscanf(lines[i], "process %95s %u", uuid, &pid) != 2 || strcmp(uuid, device->uuid))
            continue;
        if (processes && found < room)
            processes[found] = (mock_process){.pid = pid};
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetUtilizationRates(mock_gpu *device, unsigned int *rates) {
    int code = as_uint(device, "utilization", &rates[0]);
    if (code == SUCCESS && as_uint(device, "memory_utilization", &rates[1]) != SUCCESS)
        rates[1] = 0;
    return code;
}

int nvmlDeviceGetTemperature(mock_gpu *device, unsigned int sensor, unsigned int *celsius) {
    return sensor ? INVALID_ARGUMENT : as_uint(device, "temperature", celsius);
}

int nvmlDeviceGetTemperatureThreshold(mock_gpu *device, unsigned int kind, unsigned int *celsius) {
    return kind > 1 ? NOT_SUPPORTED : as_uint(device, kind ? "slowdown" : "shutdown", celsius);
}

int nvmlDeviceGetPowerUsage(mock_gpu *device, unsigned int *milliwatt) {
    return as_uint(device, "power", milliwatt);
}

int nvmlDeviceGetEnforcedPowerLimit(mock_gpu *device, unsigned int *milliwatt) {
    return as_uint(device, "power_limit", milliwatt);
}

int nvmlDeviceGetTotalEnergyConsumption(mock_gpu *device, unsigned long long *millijoule) {
    return as_ull(device, "energy", millijoule);
}

int nvmlDeviceGetClockInfo(mock_gpu *device, unsigned int clock, unsigned int *mhz) {
    return as_uint(device, clock == 2 ? "memory_clock" : "sm_clock", mhz);
}

int nvmlDeviceGetPcieThroughput(mock_gpu *device, unsigned int counter, unsigned int *kb_per_s) {
    return as_uint(device, counter ? "pcie_rx" : "pcie_tx", kb_per_s);
}

int nvmlDeviceGetTotalEccErrors(mock_gpu *device, unsigned int error, unsigned int counter,
                                unsigned long long *count) {
    (void)counter;
    return as_ull(device, error ? "ecc_uncorrected" : "ecc_corrected", count);
}

#ifndef OLD_DRIVER
int nvmlDeviceGetRemappedRows(mock_gpu *device, unsigned int *corrected, unsigned int *uncorrected,
                              unsigned int *pending, unsigned int *failure) {
    int code = as_uint(device, "remapped_corrected", corrected);
    if (code != SUCCESS)
        return code;
    *uncorrected = *pending = *failure = 0;
    as_uint(device, "remapped_uncorrected", uncorrected);
    as_uint(device, "remapped_pending", pending);
    as_uint(device, "remapped_failure", failure);
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksEventReasons(mock_gpu *device, unsigned long long *reasons) {
    return as_ull(device, "reasons", reasons);
}
#endif

int nvmlDeviceGetCurrentClocksThrottleReasons(mock_gpu *device, unsigned long long *reasons) {
    return as_ull(device, "reasons", reasons);
}

/* MIG */

int nvmlDeviceGetMaxMigDeviceCount(mock_gpu *device, unsigned int *count) {
    *count = device->mig[0] == '1' ? 7 : 0;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(mock_gpu *device, unsigned int index, mock_gpu **part) {
    char uuid[96], part_uuid[96], memory[32];
    unsigned int instance, seen = 0;
    load();
    for (unsigned int i = 0; i < line_count; i++) {
        if (sscanf(lines[i], "mig %95s %95s %31s %u", uuid, part_uuid, memory, &instance) != 4 ||
            strcmp(uuid, device->uuid) || seen++ != index)
            continue;
        for (unsigned int n = 0; n < part_count; n++)
            if (!strcmp(parts[n].uuid, part_uuid)) {
                *part = &parts[n];
                return SUCCESS;
            }
        if (part_count == MAX_GPUS)
            return INVALID_ARGUMENT;
        *part = &parts[part_count++];
        memset(*part, 0, sizeof **part);
        strcpy((*part)->uuid, part_uuid);
        strcpy((*part)->memory, memory);
        strcpy((*part)->mig, "-");
        (*part)->instance = instance;
        return SUCCESS;
    }
    return NOT_FOUND;
}

int nvmlDeviceGetGpuInstanceId(mock_gpu *part, unsigned int *instance) {
    *instance = part->instance;
    return SUCCESS;
}

/* XID events */

int nvmlEventSetCreate(void **set) {
    *set = &delivered;
    return SUCCESS;
}

int nvmlEventSetFree(void *set) {
    (void)set;
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(mock_gpu *device, unsigned long long types, void *set) {
    (void)set;
    (void)types;
    return lost(device);
}

int nvmlEventSetWait_v2(void *set, mock_event *event, unsigned int timeout_ms) {
    char uuid[96];
    unsigned int number = 0, code;
    (void)set;
    (void)timeout_ms;
    load();
    for (unsigned int i = 0; i < line_count; i++) {
        double from_s = 0;
        if (sscanf(lines[i], "xid %95s %u %lf", uuid, &code, &from_s) < 2)
            continue;
        if (number++ < delivered)
            continue;
        if (elapsed_s() < from_s)
            return TIMEOUT;
        delivered++;
        for (unsigned int n = 0; n < gpu_count; n++)
            if (!strcmp(gpus[n].uuid, uuid)) {
                *event = (mock_event){.device = &gpus[n], .type = XID_EVENT, .data = code};
                return SUCCESS;
            }
    }
    return TIMEOUT;
}

/* GPM: activity between two samples. A sample remembers whose it is. */

typedef struct {
    mock_gpu *device;
} mock_gpm_sample;

typedef struct {
    unsigned int id;
    int answer;
    double value;
    char *short_name, *long_name, *unit;
} mock_gpm_metric;

typedef struct {
    unsigned int version, count;
    mock_gpm_sample *first, *second;
    mock_gpm_metric metrics[];
} mock_gpm_metrics;

#ifndef OLD_DRIVER
int nvmlGpmQueryDeviceSupport(mock_gpu *device, unsigned int *support) {
    double value;
    support[1] = field(device, "sm_util", &value) == SUCCESS;
    return lost(device);
}

int nvmlGpmSampleAlloc(mock_gpm_sample **sample) {
    *sample = calloc(1, sizeof **sample);
    return SUCCESS;
}

int nvmlGpmSampleFree(mock_gpm_sample *sample) {
    free(sample);
    return SUCCESS;
}

int nvmlGpmSampleGet(mock_gpu *device, mock_gpm_sample *sample) {
    sample->device = device;
    return lost(device);
}

int nvmlGpmMigSampleGet(mock_gpu *device, unsigned int instance, mock_gpm_sample *sample) {
    for (unsigned int n = 0; n < part_count; n++)
        if (parts[n].instance == instance)
            sample->device = &parts[n];
    return lost(device);
}

int nvmlGpmMetricsGet(mock_gpm_metrics *asked) {
    if (!asked->first->device || !asked->second->device)
        return INVALID_ARGUMENT;
    for (unsigned int i = 0; i < asked->count; i++) {
        mock_gpm_metric *metric = &asked->metrics[i];
        const char *name = metric->id == 2    ? "sm_util"
                           : metric->id == 20 ? "gpm_tx"
                           : metric->id == 21 ? "gpm_rx"
                                              : "none";
        metric->answer = field(asked->second->device, name, &metric->value);
    }
    return SUCCESS;
}
#endif
