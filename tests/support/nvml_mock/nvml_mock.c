/* A libnvidia-ml.so.1 whose GPUs come from a text file, so that the real NVML adapter and the
 * real nvidia-ml-py run on a machine without a GPU.
 *
 * NVML_MOCK_FILE names the file. Its lines, in any number:
 *     init CODE                          nvmlInit answers CODE (an nvmlReturn_t)
 *     gpu UUID MEMORY_BYTES MIG NAME...  a GPU; MEMORY_BYTES "-": not supported;
 *                                        MIG 0 off, 1 on, "-": not supported
 *     broken CODE                        a GPU whose handle cannot be had: CODE
 *     process UUID PID                   a process that computes on this GPU
 *     hang 1                             nvmlDeviceGetCount returns when the line is gone
 *     count CODE                         nvmlDeviceGetCount answers CODE
 *     lost UUID CODE                     the handle of this GPU cannot be had: CODE
 *     processes CODE                     the question for processes gets CODE
 * `process`, `hang`, `count`, `lost` and `processes` count from the moment they are in the file.
 * Without the variable or the file there is no driver: nvmlInit answers 9.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SUCCESS = 0,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9
};
enum { MAX_GPUS = 64 };

typedef struct {
    int handle_error;
    char uuid[96];
    char memory[32];
    char mig[8];
    char name[96];
} mock_gpu;

typedef struct {
    unsigned long long total, free, used;
} mock_memory;

typedef struct {
    unsigned int pid;
    unsigned long long memory;
    unsigned int gpu_instance, compute_instance;
} mock_process;

static mock_gpu gpus[MAX_GPUS];
static unsigned int gpu_count;

static int read_gpus(const char *path) {
    char line[512];
    int init_answer = SUCCESS;
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file)
        return DRIVER_NOT_LOADED;
    gpu_count = 0;
    while (gpu_count < MAX_GPUS && fgets(line, sizeof line, file)) {
        mock_gpu *gpu = &gpus[gpu_count];
        memset(gpu, 0, sizeof *gpu);
        if (sscanf(line, "init %d", &init_answer) == 1)
            continue;
        if (sscanf(line, "broken %d", &gpu->handle_error) == 1 ||
            sscanf(line, "gpu %95s %31s %7s %95[^\n]", gpu->uuid, gpu->memory, gpu->mig,
                   gpu->name) == 4)
            gpu_count++;
    }
    fclose(file);
    return init_answer;
}

static int copy_text(const char *text, char *buffer, unsigned int length) {
    snprintf(buffer, length, "%s", text);
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    return read_gpus(getenv("NVML_MOCK_FILE"));
}

int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int code) {
    static char text[32];
    snprintf(text, sizeof text, "mock error %d", code);
    return text;
}

static int number_after(const char *beginning) {
    char line[512];
    int number = SUCCESS;
    FILE *file = fopen(getenv("NVML_MOCK_FILE"), "r");
    if (!file)
        return SUCCESS;
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, beginning, strlen(beginning)))
            number = atoi(line + strlen(beginning));
    fclose(file);
    return number;
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
    char lost[128];
    snprintf(lost, sizeof lost, "lost %s ", gpus[index].uuid);
    return gpus[index].handle_error ? gpus[index].handle_error : number_after(lost);
}

int nvmlDeviceGetUUID(mock_gpu *device, char *buffer, unsigned int length) {
    return copy_text(device->uuid, buffer, length);
}

int nvmlDeviceGetName(mock_gpu *device, char *buffer, unsigned int length) {
    return copy_text(device->name, buffer, length);
}

int nvmlDeviceGetMemoryInfo(mock_gpu *device, mock_memory *memory) {
    if (device->memory[0] == '-')
        return NOT_SUPPORTED;
    memory->total = strtoull(device->memory, NULL, 10);
    memory->free = memory->total;
    memory->used = 0;
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
    char line[512], uuid[96];
    unsigned int pid, found = 0, room = *count;
    int answer = number_after("processes ");
    FILE *file = answer ? NULL : fopen(getenv("NVML_MOCK_FILE"), "r");
    if (!file)
        return answer ? answer : INVALID_ARGUMENT;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "process %95s %u", uuid, &pid) != 2 || strcmp(uuid, device->uuid))
            continue;
        if (processes && found < room)
            processes[found] = (mock_process){.pid = pid};
        found++;
    }
    fclose(file);
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}
