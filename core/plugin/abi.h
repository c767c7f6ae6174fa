/// \file
/// The whole contract between Octachoron and a plugin: C types only. No STL type, exception or ownership
/// crosses it; the only MPI value is an MPI_Fint for comm plugins that use MPI. Tables only grow at their
/// end: test a slot by struct_size *and* null. The signatures of the operations are in operations.h.
#ifndef OCTACHORON_PLUGIN_ABI_H
#define OCTACHORON_PLUGIN_ABI_H
#include <stddef.h>
#include <stdint.h>

#include "core/plugin/operations.h"
#ifdef __cplusplus
extern "C" {
#endif

#define OCT_ABI_MAJOR 1 /* +1: a field moved, changed its type or meaning, or was removed */
#define OCT_ABI_MINOR 3 /* +1: a field or an operation was appended */

typedef enum oct_status {
  OCT_OK = 0,
  OCT_INVALID_ARGUMENT = 1,
  OCT_UNSUPPORTED = 2,
  OCT_OUT_OF_MEMORY = 3,
  OCT_DEVICE_ERROR = 4,
  OCT_COMM_ERROR = 5, /* a peer or the network failed */
  OCT_INTERNAL = 6
} oct_status;

typedef enum oct_family { OCT_DEVICE = 1, OCT_COMM = 2, OCT_PRECISION = 3 } oct_family;

/// Services the program lends to a plugin; valid until the plugin's destroy() returns.
typedef struct oct_host {
  size_t struct_size;
  void* user;
  int32_t rank, size;             /* in the communicator of the run */
  int32_t local_rank, local_size; /* among the ranks that share this node's memory */
  void (*log)(void* user, int32_t level, const char* message); /* level: 0 information, 1 warning, 2 error */
  /// Out-of-band all-gather of `bytes` per rank; collective over all ranks of the run.
  oct_status (*allgather)(void* user, const void* send, void* receive, size_t bytes);
} oct_host;

/* ---------------------------------------------------------------- device
 * ---------------------------------------- */

typedef struct oct_device oct_device; /* opaque, owned by the plugin */
typedef struct oct_lane oct_lane;     /* an in-order queue: a CUDA stream, a thread on the CPU */
typedef struct oct_event oct_event;

typedef enum oct_memory_kind {
  OCT_MEMORY_DEVICE = 0, /* the arena; aligned to 256 bytes */
  OCT_MEMORY_PINNED = 1, /* host memory that lanes can copy from and to */
  OCT_MEMORY_PEER = 2    /* device memory that other ranks of the node may map */
} oct_memory_kind;

typedef enum oct_native_type { OCT_NATIVE_NONE = 0, OCT_NATIVE_CUDA_STREAM = 1 } oct_native_type;

typedef struct oct_device_options {
  size_t struct_size;
  int32_t threads;    /* of compute operations; >= 1 */
  int32_t dry;        /* 1: touch no device; only properties and query will be called */
  const char* tuning; /* folder of algorithm choices, or null */
} oct_device_options;

typedef struct oct_device_properties {
  size_t struct_size;
  char description[128]; /* "16 x AMD EPYC 9654", "NVIDIA H200" */
  int64_t memory_bytes;  /* 0: unknown */
  int32_t is_host;       /* 1: device memory may be read and written by the host directly */
  int32_t has_graphs;
  double peak_flops[OCT_DTYPES]; /* dense, per second, by operand type; 0: unknown */
} oct_device_properties;

/// What query() says of one operation.
typedef struct oct_support {
  size_t struct_size;
  int32_t supported;
  int32_t deterministic; /* 1: reruns give equal bits */
  int64_t workspace_bytes;
  double flops, bytes; /* cost, for the estimator: arithmetic and memory traffic */
  char reason[160];    /* why not, if not supported */
} oct_support;

/// All device work is enqueued on a lane; no call but synchronize, event_synchronize and copies by the host
/// blocks.
typedef struct oct_device_table {
  size_t struct_size;
  oct_status (*create)(const oct_host* host, const oct_device_options* options, oct_device** out);
  void (*destroy)(oct_device*);
  oct_status (*properties)(oct_device*, oct_device_properties* out);

  oct_status (*allocate)(oct_device*, int32_t memory_kind, size_t bytes, void** out);
  void (*release)(oct_device*, int32_t memory_kind, void* memory);
  /// Memory of kind PEER for other processes of the node: `handle` is copied between ranks as bytes.
  /// Optional.
  oct_status (*export_memory)(oct_device*, void* memory, void* handle, size_t handle_bytes);
  oct_status (*import_memory)(oct_device*, const void* handle, size_t handle_bytes, void** out);
  void (*close_memory)(oct_device*, void* imported);

  oct_status (*lane_create)(oct_device*, const char* name, int32_t priority, oct_lane** out);
  void (*lane_destroy)(oct_device*, oct_lane*); /* waits for what is enqueued */
  oct_status (*lane_native)(oct_device*, oct_lane*, int32_t* type, void** handle);

  oct_status (*event_create)(oct_device*, oct_event** out);
  void (*event_destroy)(oct_device*, oct_event*);
  oct_status (*event_record)(oct_device*, oct_event*, oct_lane*);
  /// The lane goes on when the latest record of the event, as of this call, is past. Never recorded: at once.
  oct_status (*event_wait)(oct_device*, oct_event*, oct_lane*);
  oct_status (*event_query)(oct_device*, oct_event*, int32_t* past);
  oct_status (*event_synchronize)(oct_device*, oct_event*);

  /// Pure: needs no memory, no lane and, with `dry`, no device.
  oct_status (*query)(oct_device*, const oct_operation*, oct_support* out);
  /// May be slow (compiles, measures, packs). Equal descriptions may share an id. Ids live as long as the
  /// device.
  oct_status (*prepare)(oct_device*, const oct_operation*, int32_t* id);
  /// pointers: one per operand of the description (null where absent), then the workspace.
  oct_status (*enqueue)(oct_device*, int32_t id, void* const* pointers, oct_lane*);
  /// A host function in lane order; the lane waits for it. It must not call this table.
  oct_status (*enqueue_host)(oct_device*, oct_lane*, void (*function)(void*), void* argument);
  /// Between any two memories this process can address (device, pinned, imported).
  oct_status (*copy)(oct_device*, void* to, const void* from, size_t bytes, oct_lane*);
  /// Writes the device's clock, in seconds, when the lane gets there; readable after a synchronisation.
  oct_status (*stamp)(oct_device*, oct_lane*, double* seconds);

  /// Flags in device or imported memory, for ordering between processes: set to the epoch; wait until at
  /// least it. Optional.
  oct_status (*signal)(oct_device*, oct_lane*, uint32_t* flag, const uint32_t* epoch);
  oct_status (*await)(oct_device*, oct_lane*, const uint32_t* flag, const uint32_t* epoch);

  /// Capture of what is enqueued on the lanes into a graph. Optional.
  oct_status (*capture_begin)(oct_device*, oct_lane* const* lanes, int32_t n);
  oct_status (*capture_end)(oct_device*, int32_t* graph);
  oct_status (*graph_launch)(oct_device*, int32_t graph, oct_lane*);
  void (*graph_destroy)(oct_device*, int32_t graph);

  oct_status (*synchronize)(oct_device*); /* until all lanes are empty */
  /// The first error of enqueued work since the last call, or OCT_OK. `text` gets one line.
  oct_status (*poll_error)(oct_device*, char* text, size_t bytes);

  /// Spans: a name for profilers and, unless `begin` and `end` are null, when the device began the first and
  /// ended the last of what is enqueued on the lane up to span_end(), host functions included, in seconds of
  /// the clock of stamp(). What the lane waits for before is not in it. If nothing is enqueued, both are the
  /// end of the lane's span before. The next synchronize() writes them; until then the places must live. Spans
  /// nest: work belongs to the innermost one with times. Without times `lane` may be null. In a capture the
  /// places are not written: the graph gets a span with times. `name` is needed for the call only. Optional,
  /// both or none.
  oct_status (*span_begin)(oct_device*, oct_lane*, const char* name, double* begin, double* end);
  oct_status (*span_end)(oct_device*, oct_lane*);
  /// graph_launch() that has the times of the graph's spans written, in the order in which they began: of
  /// number k at times[2 * k] and times[2 * k + 1]. OCT_UNSUPPORTED, with nothing enqueued, where they cannot
  /// be had: what was captured can be enqueued instead. Optional.
  oct_status (*graph_launch_timed)(oct_device*, int32_t graph, oct_lane*, double* times);
} oct_device_table;

/* ---------------------------------------------------------------- comm
 * ------------------------------------------ */

typedef struct oct_comm oct_comm; /* opaque, owned by the plugin */

typedef enum oct_reduction { OCT_SUM = 0, OCT_MAX = 1 } oct_reduction;

/// One collective or transfer. `count` is in elements of `dtype`: the length of what each rank gives
/// (all-gather, all-reduce, send, receive, broadcast) or gets (reduce-scatter). An all-gather stacks in group
/// order. After an all-reduce all members hold equal bits. The order of summation depends on group size and
/// count only.
typedef struct oct_message {
  size_t struct_size;
  int32_t kind;      /* OCT_ALL_GATHER ... OCT_RECEIVE of oct_op */
  int32_t group;     /* from group_create */
  int32_t peer;      /* place in the group: send, receive, root of a broadcast */
  int32_t dtype;     /* oct_dtype */
  int32_t reduction; /* oct_reduction */
  int64_t count;
  uint64_t label; /* hash of the tensor's global name and micro-batch: equal at all ends */
} oct_message;

typedef struct oct_comm_host {
  size_t struct_size;
  const oct_host* host;
  int32_t mpi_communicator; /* MPI_Fint of the run's communicator, with MPI_THREAD_MULTIPLE; 0: none */
  const oct_device_table* device_table;
  oct_device* device;
} oct_comm_host;

/// Traffic of one group since the last reset, of this rank. Bytes on the wire are those of a ring: (n-1)/n of
/// the whole vector for all-gather and reduce-scatter, twice that for all-reduce.
typedef struct oct_comm_counters {
  size_t struct_size;
  int64_t calls;
  int64_t bytes_sent;
} oct_comm_counters;

typedef struct oct_comm_table {
  size_t struct_size;
  const char* device; /* the device it needs, or "any" */
  oct_status (*create)(const oct_comm_host* host, oct_comm** out);
  void (*destroy)(oct_comm*);
  /// Collective over the members (ranks of the run, in group order, this rank among them), in the same order
  /// on all of them. Groups of different purpose never match each other, even with equal members.
  oct_status (*group_create)(oct_comm*, const int32_t* ranks, int32_t n, const char* purpose, int32_t* group);
  /// Bytes of device workspace the message needs; 0 for most.
  oct_status (*query)(oct_comm*, const oct_message*, int64_t* workspace_bytes);
  /// In lane order. The lane is past it when the result is there and the input may be overwritten.
  oct_status (*enqueue)(oct_comm*, const oct_message*, const void* send, void* receive, void* workspace,
                        oct_lane*);
  /// Sends and receives between the two calls are one exchange that cannot deadlock within itself.
  oct_status (*exchange_begin)(oct_comm*, oct_lane*);
  oct_status (*exchange_end)(oct_comm*, oct_lane*);
  oct_status (*register_buffer)(oct_comm*, void* memory, size_t bytes); /* optional */
  int32_t (*is_capturable)(oct_comm*);                                  /* may stand in a graph */
  /// Whether lanes of different groups may be in flight at the same time; 0: the engine chains them in
  /// program order.
  int32_t (*is_concurrent)(oct_comm*);
  oct_status (*counters)(oct_comm*, int32_t group, int32_t reset, oct_comm_counters* out);
  oct_status (*poll_error)(oct_comm*, char* text, size_t bytes);
  /// Idempotent, from any thread: whatever is in flight ends, later calls fail with OCT_COMM_ERROR.
  void (*abort)(oct_comm*);
  /// Writes a line on what each lane's oldest message waits for, and for how long. Optional.
  void (*describe_pending)(oct_comm*, char* text, size_t bytes);
} oct_comm_table;

/* ---------------------------------------------------------------- precision
 * ------------------------------------- */

typedef struct oct_recipe oct_recipe; /* opaque, owned by the plugin */

/// What a buffer is for; the recipe says in which type it is stored.
typedef enum oct_storage {
  OCT_STORAGE_MASTER = 0,     /* masters and optimiser moments */
  OCT_STORAGE_WEIGHT = 1,     /* compute copies of the weights */
  OCT_STORAGE_ACTIVATION = 2, /* activations and their gradients, saved or travelling */
  OCT_STORAGE_GRADIENT = 3,   /* weight gradients: accumulated, reduced */
  OCT_STORAGE_STATISTIC = 4,  /* norm statistics, log-sum-exp, loss statistics */
  OCT_STORAGE_ROLES = 5
} oct_storage;

typedef enum oct_pass { OCT_FPROP = 0, OCT_DGRAD = 1, OCT_WGRAD = 2 } oct_pass;
typedef enum oct_operand_role { OCT_INPUT = 0, OCT_WEIGHT = 1, OCT_GRAD_OUTPUT = 2 } oct_operand_role;
typedef enum oct_granularity { OCT_PER_TENSOR = 0, OCT_PER_ROW = 1, OCT_PER_BLOCK = 2 } oct_granularity;
typedef enum oct_scale_type {
  OCT_SCALE_F32 = 0,
  OCT_SCALE_POWER_OF_TWO = 1,
  OCT_SCALE_E8M0 = 2
} oct_scale_type;
typedef enum oct_scale_source {
  OCT_SCALE_HISTORY = 0,
  OCT_SCALE_CURRENT = 1,
  OCT_SCALE_CONSTANT = 2
} oct_scale_source;
typedef enum oct_rounding { OCT_NEAREST_EVEN = 0, OCT_STOCHASTIC = 1 } oct_rounding;

typedef enum oct_amax_algorithm { OCT_AMAX_MAX = 0, OCT_AMAX_MOST_RECENT = 1, OCT_AMAX_FROZEN = 2 } oct_amax_algorithm;

/// One operand of one pass of one GEMM of the model.
typedef struct oct_quant_query {
  size_t struct_size;
  int32_t layer, layers; /* layer -1: outside the blocks (the head) */
  const char* module;    /* "layers.3.mlp.fc1", "head" */
  int32_t pass;          /* oct_pass */
  int32_t operand;       /* oct_operand_role */
} oct_quant_query;

/// QuantSpec: how that operand enters the GEMM.
typedef struct oct_quant_spec {
  size_t struct_size;
  int32_t quantized;                 /* 0: not quantised, in the storage type; `reason` says why */
  int32_t format;                    /* oct_dtype: OCT_E4M3, OCT_E5M2 */
  int32_t granularity;               /* oct_granularity */
  int32_t block_rows, block_columns; /* of OCT_PER_BLOCK: 1 x N or N x M */
  int32_t scale_type;                /* oct_scale_type */
  int32_t scale_source;              /* oct_scale_source */
  float constant;                    /* the scale, for OCT_SCALE_CONSTANT */
  uint32_t amax_axes;                /* bit a: amax is reduced over Axis a (tp 0, cp 1, dp 2, pp 3); of weights it is
                                        always that of the whole tensor */
  int32_t history;                   /* steps of the amax window */
  int32_t margin;                    /* powers of two */
  int32_t rounding;                  /* oct_rounding */
  int32_t fast_accumulation;
  int32_t amax_algorithm; /* oct_amax_algorithm: how the history makes the scale */
  char reason[128]; /* if not quantised: why, in the words of the table printed at start */
} oct_quant_spec;

typedef struct oct_precision_table {
  size_t struct_size;
  /// options: lines "key=value" of [precision] (names without the section) and of [plugin.NAME] (names with
  /// it). An unknown or wrong value: OCT_INVALID_ARGUMENT, last_error names it.
  oct_status (*create)(const oct_host* host, const char* options, oct_recipe** out);
  void (*destroy)(oct_recipe*);
  int32_t (*storage)(oct_recipe*, int32_t role); /* oct_dtype of an oct_storage */
  oct_status (*spec)(oct_recipe*, const oct_quant_query*, oct_quant_spec* out);
  /// Optional, on the host between steps: the scale of one tensor from its history, newest first; amax is
  /// history[0].
  oct_status (*update)(oct_recipe*, int64_t step, const float* history, int32_t length, float format_max,
                       float* scale);
  /// Optional, own checkpoint state: bytes, and copies in and out.
  int64_t (*state_bytes)(oct_recipe*);
  oct_status (*save_state)(oct_recipe*, void* out);
  oct_status (*load_state)(oct_recipe*, const void* in, int64_t bytes);
} oct_precision_table;

/* ---------------------------------------------------------------- plugin
 * ---------------------------------------- */

typedef struct oct_plugin {
  uint32_t abi_major, abi_minor; /* first, forever: readable at any version */
  size_t struct_size;
  int32_t family; /* oct_family */
  const char* name;
  const char* version;             /* the plugin's own */
  const char* build;               /* compiler and libraries: printed, never compared between versions */
  const char* (*last_error)(void); /* of the calling thread; valid until the next call on it */
  const void* table;               /* oct_device_table, oct_comm_table or oct_precision_table, by family */
} oct_plugin;

/// The one exported symbol. Must not allocate, must not touch MPI or a device.
#define OCT_PLUGIN_ENTRY "octachoron_plugin"
typedef const oct_plugin* (*oct_plugin_entry)(void);

#ifdef __cplusplus
}
#endif
#endif
