//! The keys of fio's job files, and how each is handled.
//!
//! A key is kept (`Same`), left out because it does not change the requests (`Ignored`), or requests something that a
//! workload can't express (`Missing`), which is an error. Source of the names: fio's `options.c`, 2026.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What becomes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It has a counterpart.
    Same,
    /// It is left out, for this reason.
    Ignored(&'static str),
    /// It has no counterpart; what to do instead.
    Missing(&'static str),
}

/// Returns the usual name of the key called `name`, and what becomes of it.
pub(super) fn find(name: &str) -> Option<(&'static str, Kind)> {
    /// Each line of a file is looked up, also of one that has a million.
    static BY_NAME: LazyLock<BTreeMap<&str, (&str, Kind)>> = LazyLock::new(|| {
        let each = |(usual, names, kind): (&'static str, &'static str, Kind)| {
            names.split('/').map(move |name| (name, (usual, kind)))
        };
        all().flat_map(each).collect()
    });
    BY_NAME.get(name).copied()
}

/// Whether fio takes the key with the usual name `usual` without what others need: `key` where `is_alone`, else `key=`.
pub(super) fn needs_no_value(usual: &str, is_alone: bool) -> bool {
    let has = |keys: &str| keys.split(' ').any(|key| key == usual);
    has(MAY_BE_EMPTY) || has(if is_alone { SWITCHES } else { "bssplit verifysort verifysort_nr" })
}

/// Keys that are on where they stand alone; `key=` is none of them.
const SWITCHES: &str = "norandommap time_based stonewall zero_buffers prep exitall exitall_on_error new_group thread \
                        group_reporting refill_buffers hipri fixedbufs registerfiles sqthread_poll userspace_reap";
/// Keys whose value fio does not ask for.
const MAY_BE_EMPTY: &str = "ignore_error cpus_allowed numa_cpu_nodes numa_mem_policy write_bw_log write_lat_log write_iops_log \
                            write_hist_log log_compression_cpus verify_async_cpus";

/// Every name of every key.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    all().flat_map(|(_, names, _)| names.split('/'))
}

/// Each key: its usual name, all its names with `/` between them, and what becomes of it.
pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static str, Kind)> {
    let of_kind = |(kind, keys): &(Kind, &'static str)| {
        let kind = *kind;
        keys.split(' ').map(move |names| (names.split('/').next().unwrap_or(names), names, kind))
    };
    KEYS.iter().flat_map(of_kind)
}

/// All keys by what becomes of them, in fio's order.
const KEYS: &[(Kind, &str)] = &[
    (
        Kind::Same,
        "filename directory rw/readwrite ioengine iodepth size io_size/io_limit filesize offset/fileoffset \
         offset_increment number_ios bs/blocksize ba/blockalign bsrange/blocksize_range bssplit randseed \
         norandommap random_distribution percentage_random fsync fdatasync direct buffered loops numjobs \
         runtime/timeout time_based ramp_time rwmixread rwmixwrite thinktime thinktime_blocks rate \
         rate_iops rate_process stonewall/wait_for_previous zero_buffers buffer_compress_percentage \
         dedupe_percentage kb_base verify do_verify startdelay/start_delay wait_for nrfiles/nr_files filename_format \
         uri nfs_url random_generator file_service_type openfiles",
    ),
    (
        Kind::Ignored("a run here goes on after a failed request and counts it"),
        "continue_on_error ignore_error",
    ),
    (
        Kind::Ignored("it belongs to a profile of fio's, and asks for nothing without one"),
        "threads block numruns dir device-names load prep test-duration threads-per-queue \
         read-req-num-512-blocks large-block-op-kbytes",
    ),
    (
        Kind::Ignored("how files are made is up to the target"),
        "filetype lockfile fallocate overwrite \
         create_serialize create_fsync create_on_open allow_file_create allow_mounted_write pre_read \
         end_fsync fsync_on_close end_syncfs unlink unlink_each_loop",
    ),
    (
        Kind::Ignored(
            "fio submits and reaps so many requests at once, and so has fewer than its iodepth in flight at times; here the next one is \
             submitted when one ends",
        ),
        "iodepth_batch/iodepth_batch_submit iodepth_batch_complete_min/iodepth_batch_complete \
         iodepth_batch_complete_max iodepth_low",
    ),
    (
        Kind::Ignored("it is about how fio runs and reports, not about what it asks"),
        "io_submit_mode randrepeat/allrandrepeat softrandommap \
         fadvise_hint clocksource mem/iomem iomem_align/mem_align ioscheduler lockmem comm \
         nice prio prioclass priohint thinktime_spin invalidate write_hint cpumask cpus_allowed \
         cpus_allowed_policy numa_cpu_nodes numa_mem_policy exitall exit_what exitall_on_error new_group \
         thread per_job_logs write_bw_log write_lat_log write_iops_log log_entries log_avg_msec \
         log_hist_msec log_hist_coarseness write_hist_log log_window_value/log_max_value log_offset \
         log_prio log_issue_time log_compression log_compression_cpus log_store_compressed \
         log_alternate_epoch/log_unix_epoch log_alternate_epoch_clock_id block_error_percentiles bwavgtime \
         iopsavgtime group_reporting stats clat_percentiles lat_percentiles slat_percentiles \
         percentile_list significant_figures disk_util gtod_reduce disable_lat disable_clat disable_slat \
         disable_bw_measurement/disable_bw gtod_cpu job_start_clock_id unified_rw_reporting error_dump \
         cgroup cgroup_nodelete cgroup_weight uid gid unit_base hugepage-size sqthread_poll \
         sqthread_poll_cpu registerfiles hipri fixedbufs nonvectored uncached userspace_reap gpu_dev_ids \
         force_async",
    ),
    (Kind::Ignored("it names or describes"), "description name unique_filename"),
    (
        Kind::Ignored("nothing is compared while a load runs; the requests are the same"),
        "verify_policy verifysort verifysort_nr verify_interval verify_offset \
         verify_pattern verify_pattern_interval verify_fatal verify_dump verify_async verify_backlog \
         verify_backlog_batch verify_async_cpus experimental_verify verify_state_load verify_state_save \
         verify_write_sequence verify_header_seed",
    ),
    (
        Kind::Ignored("whether a run was steady is told by raidlab itself"),
        "steadystate/ss steadystate_duration/ss_dur steadystate_ramp_time/ss_ramp \
         steadystate_check_interval/ss_interval",
    ),
    (
        Kind::Ignored(
            "writes carry noise unless buffer_compress_percentage or dedupe_percentage say otherwise",
        ),
        "refill_buffers scramble_buffers buffer_pattern buffer_compress_chunk dedupe_global dedupe_mode \
         dedupe_working_set_percentage",
    ),
    (
        Kind::Ignored("it ends a job that is too slow: --bound says whether a run keeps its rate"),
        "rate_min/ratemin rate_iops_min rate_cycle/ratecycle",
    ),
    (Kind::Missing("give parts a weight instead"), "flow_id flow flow_watermark flow_sleep"),
    (
        Kind::Missing(
            "it belongs to an engine that asks something else of something else; leave it out if it is not in use",
        ),
        "hostname bindname listen port protocol proto nodelay net_options ttl interface pingpong \
         window_size mss cmd_type md_per_io_size pi_act pi_chk apptag apptag_mask write_mode verify_mode \
         sg_write_mode stream_id http_verbose https http_mode http_host http_user http_pass http_s3_key \
         http_s3_keyid http_s3_region http_s3_sse_customer_key http_s3_sse_customer_algorithm \
         http_s3_storage_class http_swift_auth_token clustername rbdname pool clientname busy_poll \
         touch_objects donorname inplace cpuload cpuchunks cpumode exit_on_io_done verb rdma_protocol \
         namenode chunk_size single_instance hdfs_use_direct volume brick libblkio_path \
         libblkio_driver libblkio_pre_connect_props libblkio_num_entries libblkio_queue_size \
         libblkio_pre_start_props hipri_no_hint skip_bad cuda_io rocm_io cont conf dfs_cache chunk \
         object_class svcl ime_psync ime_psyncv xnvme_async xnvme_sync xnvme_admin xnvme_dev_nsid \
         xnvme_iovec xnvme_mem bs_unit stat_type filestat_type xnvme_proto deac",
    ),
    (
        Kind::Missing("leave it out if the load may differ in that"),
        "opendir rw_sequencer serialize_overlap fill_device/fill_fs file_append offset_align \
         bs_unaligned/blocksize_unaligned bs_is_seq_rand sprandom spr_num_regions spr_op spr_cs \
         random_sequence_stride percentage_sequential verify_only ramp_size fdp \
         dataplacement/data_placement plid_select/fdp_pli_select plids/fdp_pli dp_scheme rwmixcycle \
         thinkcycles thinktime_blocks_type thinktime_iotime \
         rate_ignore_thinktime create_only gpu_dev_id profile",
    ),
    (
        Kind::Missing("measure at several iodepths with --bound instead"),
        "max_latency latency_target latency_window latency_percentile latency_run",
    ),
    (
        Kind::Missing("raidlab runs no other programs"),
        "exec_prerun exec_postrun program arguments grace_time std_redirect",
    ),
    (
        Kind::Missing("replay of traces is not part of the workload language"),
        "write_iolog read_iolog read_iolog_chunked replay_no_stall replay_redirect replay_scale \
         replay_align replay_time_scale replay_skip merge_blktrace_file merge_blktrace_scalars \
         merge_blktrace_iters",
    ),
    (
        Kind::Missing(
            "requests carry no barrier or priority here; --fua has writes end when the medium has them",
        ),
        "write_barrier sync_file_range atomic sync readfua writefua cmdprio_percentage cmdprio_class \
         cmdprio cmdprio_bssplit",
    ),
    (
        Kind::Missing("trims are not part of the workload language"),
        "num_range trim_percentage trim_verify_zero trim_backlog trim_backlog_batch",
    ),
    (
        Kind::Missing(
            "zones are not driven: neither those of a device, nor strides (zonemode=strided), which leave gaps between",
        ),
        "zonemode zonesize zonecapacity zonerange zoneskip read_beyond_wp max_open_zones job_max_open_zones \
         ignore_zone_limits zone_reset_threshold zone_reset_frequency recover_zbd_write_error \
         write_zone_remainder",
    ),
];
