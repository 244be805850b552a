/** What backups offer to the admin plane, and what they need of a download and of an upload. */
import type { ErrorCode } from '../base/errors.ts';

/** Where an export goes. */
export interface ExportSink {
  readonly isOver: boolean;
  /** Told once, when everything is over. */
  onOver: (() => void) | undefined;
  /** `digest`: hex, when it is known already. */
  begin(commitIndex: number, digest: string | undefined): void;
  /** `next` runs when it is time for another piece. */
  write(piece: Uint8Array, next: () => void): void;
  end(): void;
  fail(code: ErrorCode, detail?: string): void;
}

/** Who uploads. */
export interface ImportSink {
  pause(): void;
  resume(): void;
  json(status: number, value: unknown): void;
  /** A refusal in a sentence of its own. */
  text(status: number, sentence: string): void;
  fail(code: ErrorCode, detail?: string): void;
}

/** Takes the upload. Pieces may be reused after the call. */
export interface ImportFeed {
  push(piece: Uint8Array): void;
  end(): void;
  /** The client is gone. */
  abort(): void;
}

export interface ImportRequest {
  /** What the client says that the whole upload has. */
  readonly digest: string | undefined;
  readonly adopts: boolean;
  /** Identity of the cluster that the backup is of, if the client knows it. */
  readonly source: string | undefined;
}

/** Why an export ended early: a word for programs, and a sentence. */
export interface ExportEnd {
  readonly code: 'volume-short' | 'reader-rested' | 'read-failed' | 'shard-refused';
  readonly reason: string;
}

/** As /info shows it. */
export interface EndedExport extends ExportEnd {
  readonly raft_group_id: number;
  readonly ended_unix_ms: number;
}

/** How long objects in the cold store outlive the stream, or the merge, that they belonged to: a backup refers to them for as long. */
export interface ColdGraces {
  readonly cold_gc_grace_ms: number;
  /** Absent: nothing is merged. */
  readonly cold_compaction_gc_grace_ms?: number;
}

/** Which cluster this is, and whose backups it was restored from. */
export interface Lineage {
  readonly cluster_id: string | null;
  readonly restored_from: readonly string[];
}

export interface Backups {
  readonly lineage: Lineage;
  exportGroup(group: number, sink: ExportSink): void;
  /** Of the groups whose last export through this node ended early. */
  readonly endedExports: readonly EndedExport[];
  /** Undefined: there is no cold store. */
  readonly coldGraces: ColdGraces | undefined;
  importGroup(group: number, wanted: ImportRequest, sink: ImportSink): ImportFeed;
}
