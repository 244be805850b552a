/**
 * The runs of a World: a stream for each, which holds its events, one that lists them all, and one for each token of a hook, which holds
 * who claimed it. Whether a run has ended, or a claim still counts, only the run's own stream says.
 */
import { type MillraceClient, type MillraceStream, OffsetConflict } from './client.ts';
import { JSON_TYPE, isCode, isObject, refusal } from './resumable-log.ts';
import type { WorkflowEvent, WorkflowEventRequest, WorkflowRun, WorkflowRunStatus } from './workflow-events.ts';
import { FoldedLog, RecordWriter, UnreadableRecords, makeJson } from './workflow-log.ts';
import { type Moment, type RunState, applyEvent, decide, emptyRun, isEnded } from './workflow-run-fold.ts';

/** Runs, and bytes of their streams, whose events a process keeps; of another one all are read. */
const RUNS_KEPT_MAX = 500;
const BYTES_KEPT_MAX = 64 * 1024 * 1024;
/** Runs that are read at a time, of those that a list looks through. */
const RUNS_AT_A_TIME = 16;
/** Others that claim the same token win at most so often in a row. */
const CLAIM_TRIES_MAX = 100;

export interface HookClaim {
  readonly runId: string;
  readonly hookId: string;
}

export interface ListedRun {
  readonly runId: string;
  readonly workflowName: string;
}

type ListRecord = ListedRun | { readonly ended: string; readonly status: WorkflowRunStatus };

export class WorkflowRuns {
  readonly #client: MillraceClient;
  readonly #bucket: string;
  /** By ID, those used last at the end. */
  readonly #kept = new Map<string, RunLog>();
  readonly #list: FoldedLog<ListRecord>;
  readonly #listWriter: RecordWriter<ListRecord>;
  #listed: ListedRun[] = [];
  readonly #isListed = new Set<string>();
  /** Runs that a process saw end; the streams of the others have to be read. */
  readonly #ends = new Map<string, WorkflowRunStatus>();

  constructor(client: MillraceClient, bucket: string) {
    this.#client = client;
    this.#bucket = bucket;
    this.#listWriter = new RecordWriter(this.#streamOf('runs'));
    this.#list = new FoldedLog(this.#streamOf('runs'), {
      apply: (records) => {
        // A stranger may have written something else.
        for (const record of records) if (isObject(record)) this.#applyListed(record);
      },
      reset: () => {
        this.#listed = [];
        this.#isListed.clear();
        this.#ends.clear();
      },
      unreadable: 'WorkflowWorldError',
    });
  }

  of(runId: string): RunLog {
    const log = this.#kept.get(runId) ?? new RunLog(this.#streamOf(`run ${runId}`));
    this.#kept.delete(runId);
    this.#kept.set(runId, log);
    let bytes = [...this.#kept.values()].reduce((sum, kept) => sum + kept.bytes, 0);
    for (const [oldest, kept] of this.#kept) {
      if (kept === log || (this.#kept.size <= RUNS_KEPT_MAX && bytes <= BYTES_KEPT_MAX)) break;
      this.#kept.delete(oldest);
      bytes -= kept.bytes;
    }
    return log;
  }

  /** Before the run has its first event, so that no run is missing; lists pass over one that never gets any. */
  async enlist(run: ListedRun): Promise<void> {
    await this.#listWriter.append(run);
  }

  /** Spares lists a look into its stream, and may be missing. A process that lists nothing remembers none. */
  noteEnd({ runId, status }: WorkflowRun): void {
    if (this.#ends.has(runId)) return;
    if (this.#isListed.has(runId)) this.#ends.set(runId, status);
    void this.#listWriter.append({ ended: runId, status }).catch(() => undefined);
  }

  /** All of them, in the order in which they were enlisted, which never changes. */
  async listed(): Promise<readonly ListedRun[]> {
    return await this.#list.read(() => [...this.#listed]);
  }

  /** Undefined: its stream has to be read. */
  endOf(runId: string): WorkflowRunStatus | undefined {
    return this.#ends.get(runId);
  }

  /** The states of runs in this order, of which the reader takes as many as it needs. */
  async *states(runIds: readonly string[]): AsyncGenerator<RunState, void> {
    for (let i = 0; i < runIds.length; i += RUNS_AT_A_TIME) {
      const some = runIds.slice(i, i + RUNS_AT_A_TIME).map(async (runId) => {
        try {
          // Those that are only looked at do not take the place of those in use.
          const log = this.#kept.get(runId) ?? new RunLog(this.#streamOf(`run ${runId}`));
          return await log.read();
        } catch (error) {
          // One of a later version, or that a stranger wrote or listed, does not hide the others.
          if (!isMisnamed(error) && !(error instanceof UnreadableRecords)) throw error;
          return emptyRun();
        }
      });
      for (const state of await Promise.all(some)) {
        if (state.run !== undefined && isEnded(state.run)) this.noteEnd(state.run);
        yield state;
      }
    }
  }

  /** The claim that holds the token after this: this one, or that of another hook which is live or about to be created. */
  async claim(token: string, claim: HookClaim): Promise<HookClaim> {
    const stream = await this.#tokenStream(token);
    for (let tries = 0; tries < CLAIM_TRIES_MAX; tries++) {
      const { last, offset } = await lastClaim(stream);
      if (last !== undefined) {
        if (last.runId === claim.runId && last.hookId === claim.hookId) return claim;
        if (await this.#mayLive(last)) return last;
      } else if (offset === 0) await makeJson(stream);
      try {
        await stream.records<HookClaim>().append(claim, { expectedOffset: offset });
        return claim;
      } catch (error) {
        if (!(error instanceof OffsetConflict)) throw error;
      }
    }
    throw refusal('QUEUE_FULL', `other hooks claimed the token ${CLAIM_TRIES_MAX} times meanwhile`);
  }

  async claimOf(token: string): Promise<HookClaim | undefined> {
    return (await lastClaim(await this.#tokenStream(token))).last;
  }

  /** A claim is made before its hook, and counts until that is disposed, or was told of a conflict, or its run ends. */
  async #mayLive({ runId, hookId }: HookClaim): Promise<boolean> {
    try {
      const { run, hooks, others } = await this.of(runId).read();
      return run !== undefined && !isEnded(run) && hooks.get(hookId)?.isDisposed !== true && !others.has(hookId);
    } catch (error) {
      if (isMisnamed(error)) return false;
      // A later version knows.
      if (error instanceof UnreadableRecords) return true;
      throw error;
    }
  }

  /** Tokens are any text, and names of streams are not. */
  async #tokenStream(token: string): Promise<MillraceStream> {
    const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(token));
    const hex = [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
    return this.#streamOf(`token ${hex}`);
  }

  #applyListed(record: ListRecord): void {
    if ('ended' in record) this.#ends.set(record.ended, record.status);
    else if (!this.#isListed.has(record.runId)) {
      this.#isListed.add(record.runId);
      this.#listed.push(record);
    }
  }

  #streamOf(name: string): MillraceStream {
    return this.#client.stream(this.#bucket, name, { contentType: JSON_TYPE });
  }
}

/** The events of one run, and their fold. */
export class RunLog {
  readonly #log: FoldedLog<WorkflowEvent>;
  #state = emptyRun();

  constructor(stream: MillraceStream) {
    this.#log = new FoldedLog(stream, {
      apply: (events) => {
        for (const event of events) applyEvent(this.#state, event);
      },
      reset: () => {
        this.#state = emptyRun();
      },
      // The DevKit has this name for runs of a later version.
      unreadable: 'RunNotSupportedError',
    });
  }

  get bytes(): number {
    return this.#log.bytes;
  }

  async read(): Promise<RunState> {
    return await this.#log.read(() => this.#state);
  }

  /** Appends what follows from the request, and looks at the state then; no event: it was done before. */
  async transact<R>(
    request: WorkflowEventRequest,
    moment: Moment,
    look: (state: RunState, event: WorkflowEvent | undefined) => R,
  ): Promise<R> {
    return await this.#log.transact(
      () => decide(this.#state, request, moment),
      (events) => look(this.#state, events.at(-1)),
    );
  }
}

/** No stream can have the name that a stranger gave a run. */
const isMisnamed = (error: unknown): boolean => isCode(error, 'INVALID_ARGUMENT') || isCode(error, 'INVALID_NAME');

/** A stranger may have written something else. */
const isClaim = (value: unknown): value is HookClaim =>
  isObject(value) &&
  'runId' in value &&
  typeof value.runId === 'string' &&
  'hookId' in value &&
  typeof value.hookId === 'string';

/** The head comes first: what is appended there is appended behind the record that is read then, or not at all. */
async function lastClaim(stream: MillraceStream): Promise<{ last: HookClaim | undefined; offset: number }> {
  try {
    const { offset } = await stream.head();
    let last: HookClaim | undefined;
    for await (const { value } of stream.records<unknown>().follow({ tail: 1, live: false }))
      last = isClaim(value) ? value : undefined;
    return { last, offset };
  } catch (error) {
    if (!isCode(error, 'STREAM_NOT_FOUND')) throw error;
    return { last: undefined, offset: 0 };
  }
}
