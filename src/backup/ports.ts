/** The interface of backups for the admin plane, and the parts of a download and an upload that they use. */
import type { ErrorCode } from '../base/errors.ts';

/** Destination of an export. */
export interface ExportSink {
  readonly isOver: boolean;
  /** Called once, when everything is over. */
  onOver: (() => void) | undefined;
  /** `digest`: hex, if already known. */
  begin(commitIndex: number, digest: string | undefined): void;
  /** `next` is called when another piece may follow. */
  write(piece: Uint8Array, next: () => void): void;
  end(): void;
  fail(code: ErrorCode, detail?: string): void;
}

/** The uploading client. */
export interface ImportSink {
  pause(): void;
  resume(): void;
  json(status: number, value: unknown): void;
  /** A refusal with its own sentence. */
  text(status: number, sentence: string): void;
  fail(code: ErrorCode, detail?: string): void;
}

/** Receives the upload. Pieces may be reused after the call. */
export interface ImportFeed {
  push(piece: Uint8Array): void;
  end(): void;
  /** The client disconnected. */
  abort(): void;
}

export interface ImportRequest {
  /** Digest of the complete upload as given by the client. */
  readonly digest: string | undefined;
  readonly adopts: boolean;
  /** Identity of the backup's cluster, if the client knows it. */
  readonly source: string | undefined;
}

export const EXPORT_END_CODES = [
  'volume-short',
  'reader-rested',
  'read-failed',
  'shard-refused',
  'node-restarted',
] as const;

/** Why an export ended early: a code for programs, and a sentence. */
export interface ExportEnd {
  readonly code: (typeof EXPORT_END_CODES)[number];
  readonly reason: string;
}

/** An export that ended early, as /info shows it. */
export interface EndedExport extends ExportEnd {
  readonly raft_group_id: number;
  readonly ended_unix_ms: number;
}

/** An export that is under way. */
export interface RunningExport {
  readonly raft_group_id: number;
  readonly since_unix_ms: number;
}

/** The last complete export of a group. */
export interface FinishedExport {
  readonly raft_group_id: number;
  readonly finished_unix_ms: number;
}

/** Exports through this node. */
export interface ToldExports {
  readonly exports_running?: readonly RunningExport[];
  readonly exports_finished?: readonly FinishedExport[];
  /** Groups whose last export ended early. */
  readonly exports_ended_early?: readonly EndedExport[];
}

/** How long objects in the cold store outlive their stream or merge, and so how long a backup may refer to them. */
export interface ColdGraces {
  readonly cold_gc_grace_ms: number;
  /** Absent: chunks are not merged. */
  readonly cold_compaction_gc_grace_ms?: number;
}

/** The identity of this cluster, and those of the backups it was restored from. */
export interface Lineage {
  readonly cluster_id: string | null;
  readonly restored_from: readonly string[];
}

export interface Backups {
  readonly lineage: Lineage;
  exportGroup(group: number, sink: ExportSink): void;
  readonly exports: ToldExports;
  /** Undefined: there is no cold store. */
  readonly coldGraces: ColdGraces | undefined;
  importGroup(group: number, wanted: ImportRequest, sink: ImportSink): ImportFeed;
}
