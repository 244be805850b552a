/**
 * Compares the rows of replicas: an error in this program, or a disk that changes a row and its checksum, makes them
 * differ without any of them noticing. The leader of a group names an index and a key; every member digests the rows
 * from there on as they are at that index, a few megabytes of them, and the next question begins where they end. Members
 * that differ from a majority of the voters take the state of a leader (damaged-groups.ts).
 *
 * A digest is read from a checkpoint at its index. A member that gets there waits with what follows until that is
 * encoded, and reads the rows later, in one read transaction and at a bounded rate.
 */
import { RowDamage } from '../base/row-damage.ts';
import type { Group } from '../group/group.ts';
import {
  type Digest,
  OP_DIFFERS,
  OP_DIGEST,
  type RowQuestion,
  areSame,
  decodeDigest,
  encodeDigest,
  encodeRowQuestion,
} from '../peer/codec/comparison.ts';
import type { Commits } from './commits.ts';
import type { Log, ShardStorage } from './ports.ts';
import type { Replication } from './replication.ts';
import { RowDigest } from './row-digest.ts';
import type { ScrubPace } from './scrub.ts';

/** Rows of one digest: a read transaction of some seconds, for which LMDB keeps the pages that checkpoints replace. */
const DIGEST_BYTES = 4 * 1024 * 1024;
/** A member waits so long until it has applied as much, and then until a checkpoint is encoded: writes wait as well. */
const REACH_MS = 5000;
const HOLD_MS = 250;
/** The first comparison behind a start, which has other work. */
const START_MS = 5000;
/** After a digest that some member could not make, and how often. Then the group's turn comes later. */
const RETRY_MS = 1000;
const TRIES = 3;
const LATER_MS = 60_000;
/** The longest after digests that this node could not make: twice as long each time. */
const LATER_MAX_MS = 3_600_000;
/** A question waits so long for the end of checkpoints. */
const ASK_MS = 60_000;
/** No answer comes any more: links give up forwarded requests before. */
const ROUND_MS = 120_000;
/** A step delays the turn that it is in. */
const STEP_BYTES_MAX = 256 * 1024;

/** Log sentences for operators. */
export const DIFFERS = 'a replica of a group has other rows than most: it takes the state of a leader';
export const UNDECIDED =
  'the replicas of a group have different rows, and no majority has the same: none is changed; compare them, and restore a backup';
export const UNSETTLED =
  'replicas of a group have different rows, and those that did not answer decide which are right: start their nodes again, or update them';

const FIRST = new Uint8Array(0);
const NONE: readonly Group[] = [];
const NOBODY: ReadonlySet<number> = new Set();

type OnDigest = (digest: Digest | undefined) => void;

interface ComparisonOptions {
  readonly groups: readonly Group[];
  readonly nodeId: number;
  readonly storage: Pick<ShardStorage, 'openRanges'>;
  readonly replication: Pick<Replication, 'comparable' | 'compare'>;
  readonly commits: Pick<Commits, 'checkpointMs' | 'isWriting' | 'lastCheckpoint'>;
  readonly pace: ScrubPace;
  readonly log: Log;
  /** It has rows that the disk changed, or none that can be compared. */
  readonly isDamaged: (group: Group) => boolean;
  /** This node's rows are not those of the majority. */
  readonly differs: (group: Group) => void;
}

/** A digest that this node makes: of its own round, or asked for by another leader. */
interface Measure {
  readonly question: RowQuestion;
  readonly onDigest: OnDigest;
  /** held: at its index. written: a checkpoint has it, and what follows is applied. */
  phase: 'reaching' | 'held' | 'written';
  giveUpMs: number;
  /** From when on they are read. */
  rows: RowDigest | undefined;
}

/** A leader's question to the members of a group, itself among them. */
interface Round {
  readonly question: RowQuestion;
  /** By node; undefined: it could not. */
  readonly digests: Map<number, Digest | undefined>;
  readonly members: readonly number[];
  readonly giveUpMs: number;
}

/** A leader's way through the rows of a group. */
interface Pass {
  readonly group: Group;
  from: Uint8Array;
  /** Rounds from there that some member had no digest for. */
  tries: number;
  /** Not before. */
  atMs: number;
  /** When the next question was due; 0: it is not. */
  askMs: number;
  round: Round | undefined;
  /** Members that had no digest after some tries: the rest of the pass is without them. */
  readonly failed: Set<number>;
  /** Members that were not connected when they would have been asked. */
  readonly away: Set<number>;
  /** Kinds of differences that were met; none: the replicas have the same rows. */
  readonly found: Set<'different' | 'unsettled' | 'undecided'>;
}

export class Comparison {
  readonly #options: ComparisonOptions;
  readonly #measures = new Map<Group, Measure>();
  #pass: Pass | undefined;
  /** When each group may be compared again, or earlier, when one of the members that were away is back. */
  readonly #due = new Map<Group, { readonly ms: number; readonly away: ReadonlySet<number> }>();
  readonly #undecided = new Set<Group>();
  /** Groups of which this node could make no digest, and how long they were left alone then. */
  readonly #failedMs = new Map<Group, number>();
  #clockMs = 0;
  #readAtMs = 0;
  #startMs = 0;
  /** Bytes that were compared since the start, and how often all of a group. */
  readonly #counters = { comparedBytes: 0, comparisons: 0 };

  constructor(options: ComparisonOptions) {
    this.#options = options;
  }

  get counters(): Record<'comparedBytes' | 'comparisons' | 'undecidedGroups', number> {
    return { ...this.#counters, undecidedGroups: this.#undecided.size };
  }

  /** A question of another node. */
  asked(group: Group, question: RowQuestion, answer: (bytes: Uint8Array) => void): void {
    if (question.op === OP_DIGEST) return this.#measure(group, question, (digest) => answer(encodeDigest(digest)));
    this.#options.differs(group);
    return answer(encodeDigest(undefined));
  }

  /** Groups of which a checkpoint is needed now: their digests are of what they have applied. */
  waiting(clockMs: number): readonly Group[] {
    this.#clockMs = clockMs;
    // Every turn asks.
    if (this.#measures.size === 0) return NONE;
    for (const [group, measure] of this.#measures) this.#look(group, measure);
    return [...this.#measures].flatMap(([group, { phase }]) => (phase === 'held' ? [group] : []));
  }

  /** The state at this index is on disk. */
  checkpointed(group: Group, index: number): void {
    const measure = this.#measures.get(group);
    if (measure === undefined || measure.rows !== undefined || measure.question.index !== index) return;
    this.#write(group, measure);
    measure.rows = new RowDigest(this.#options.storage, group.state.prefix, measure.question);
  }

  /** Once a tick, before new entries are proposed: no member has applied more than the log of a leader has now. */
  tick(clockMs: number): void {
    const { bytesPerSecond, pauseMs } = this.#options.pace;
    const left = Math.min(STEP_BYTES_MAX, ((clockMs - this.#readAtMs) * bytesPerSecond) / 1000);
    this.#clockMs = this.#readAtMs = clockMs;
    // The next leader finds out by itself.
    for (const group of this.#undecided) if (!group.leads) this.#undecided.delete(group);
    if (this.#startMs === 0) this.#startMs = clockMs + Math.min(START_MS, pauseMs);
    if (clockMs < this.#startMs || bytesPerSecond === 0) return;
    const reading = [...this.#measures].find(([, { rows }]) => rows !== undefined);
    if (reading !== undefined && left > 0) this.#read(...reading, left);
    this.#lead();
  }

  /** No transaction stays open. */
  stop(): void {
    for (const group of this.#measures.keys()) this.#end(group, undefined);
  }

  #measure(group: Group, question: RowQuestion, onDigest: OnDigest): void {
    this.#end(group, undefined);
    if (this.#options.isDamaged(group) || group.state.appliedIndex > question.index) return onDigest(undefined);
    const giveUpMs = this.#clockMs + REACH_MS;
    this.#measures.set(group, { question, onDigest, phase: 'reaching', giveUpMs, rows: undefined });
    group.raft.holdAt(question.index);
  }

  #look(group: Group, measure: Measure): void {
    const { commits } = this.#options;
    const { index } = measure.question;
    if (measure.rows !== undefined) return;
    if (measure.phase === 'reaching' && group.state.appliedIndex === index) {
      measure.phase = 'held';
      measure.giveUpMs = this.#clockMs + HOLD_MS;
    }
    if (measure.phase === 'held') {
      if (commits.lastCheckpoint(group) === index) return this.checkpointed(group, index);
      if (commits.isWriting(group, index)) this.#write(group, measure);
    }
    const isPassed = measure.phase !== 'written' && group.state.appliedIndex > index;
    if (isPassed || this.#clockMs > measure.giveUpMs) this.#end(group, undefined);
  }

  /** Entries behind the index are applied from now on. */
  #write(group: Group, measure: Measure): void {
    if (measure.phase === 'written') return;
    measure.phase = 'written';
    measure.giveUpMs = this.#clockMs + REACH_MS;
    group.raft.holdAt(Infinity);
  }

  #read(group: Group, { rows }: Measure, bytesMax: number): void {
    try {
      const digest = rows?.step(bytesMax);
      if (digest !== undefined) this.#end(group, digest === 'impossible' ? undefined : digest);
    } catch (error) {
      // It is noticed as by any other read.
      if (!(error instanceof RowDamage)) throw error;
      this.#end(group, undefined);
    }
  }

  #end(group: Group, digest: Digest | undefined): void {
    const measure = this.#measures.get(group);
    if (measure === undefined) return;
    this.#measures.delete(group);
    this.#write(group, measure);
    measure.rows?.close();
    measure.onDigest(digest);
  }

  #lead(): void {
    const pass = (this.#pass ??= this.#next());
    if (pass === undefined || this.#clockMs < pass.atMs) return;
    const { round, group } = pass;
    if (!this.#canCompare(group)) return this.#leave(LATER_MS);
    if (round === undefined) return this.#ask(pass);
    if (round.digests.size === round.members.length || this.#clockMs > round.giveUpMs) this.#decide(pass, round);
  }

  #next(): Pass | undefined {
    const dueMs = (group: Group): number => this.#due.get(group)?.ms ?? 0;
    const due = this.#options.groups.filter((one) => this.#isDue(one) && this.#canCompare(one));
    // By turns: a pass may take longer than the pause behind it.
    const group = due.sort((a, b) => dueMs(a) - dueMs(b))[0];
    const none = { failed: new Set<number>(), away: new Set<number>(), found: new Set<never>() };
    return group && { group, from: FIRST, tries: 0, atMs: 0, askMs: 0, round: undefined, ...none };
  }

  #isDue(group: Group): boolean {
    const { ms = 0, away } = this.#due.get(group) ?? {};
    if (this.#clockMs >= ms) return true;
    return (
      away !== undefined && away.size > 0 && this.#options.replication.comparable(group).some((one) => away.has(one))
    );
  }

  /** A majority of the voters can be asked. */
  #canCompare(group: Group): boolean {
    const { nodeId, replication, isDamaged } = this.#options;
    const { voters, votersOutgoing } = group.raft.configuration;
    if (!group.leads || votersOutgoing.length > 0 || voters.length < 2 || isDamaged(group)) return false;
    const asked = [nodeId, ...replication.comparable(group)].filter((node) => voters.includes(node));
    return 2 * asked.length > voters.length;
  }

  #ask(pass: Pass): void {
    const { nodeId, replication, commits } = this.#options;
    // Its group would wait for that one's end. Where one is always under way, it has to.
    pass.askMs ||= this.#clockMs;
    if (commits.checkpointMs(this.#clockMs) > 0 && this.#clockMs - pass.askMs < ASK_MS) return;
    pass.askMs = 0;
    const { group, from, failed, away } = pass;
    const connected = replication.comparable(group);
    const { voters, learners } = group.raft.configuration;
    for (const node of [...voters, ...learners]) if (node !== nodeId && !connected.includes(node)) away.add(node);
    const others = connected.filter((node) => !failed.has(node));
    const question = { op: OP_DIGEST, index: group.raft.lastIndex, bytesMax: DIGEST_BYTES, from };
    const digests: Round['digests'] = new Map();
    pass.round = { question, digests, members: [nodeId, ...others], giveUpMs: this.#clockMs + ROUND_MS };
    for (const node of others)
      replication.compare(node, group, encodeRowQuestion(question), (answer) =>
        digests.set(node, decodeDigest(answer)),
      );
    this.#measure(group, question, (digest) => digests.set(nodeId, digest));
  }

  #decide(pass: Pass, { question, digests, members }: Round): void {
    const { nodeId } = this.#options;
    const { group } = pass;
    pass.round = undefined;
    const made = new Map([...digests].flatMap(([node, digest]) => (digest === undefined ? [] : [[node, digest]])));
    const own = made.get(nodeId);
    if (own === undefined) return this.#leaveAlone(group);
    const failed = members.filter((node) => !made.has(node));
    if (failed.length > 0 && pass.tries++ < TRIES) {
      pass.atMs = this.#clockMs + RETRY_MS;
      return;
    }
    for (const node of failed) pass.failed.add(node);
    const [most, isOpen] = mostOf(made, group.raft.configuration.voters);
    const different = [...made].flatMap(([node, digest]) => (areSame(digest, most ?? own) ? [] : [node]));
    if (different.length > 0) {
      if (most === undefined) this.#sayOpen(pass, isOpen, { index: question.index, nodes: [...made.keys()] });
      else for (const node of different) this.#tell(pass, node, question);
    }
    this.#counters.comparedBytes += own.bytes;
    if (most !== undefined && different.includes(nodeId)) return this.#leave(LATER_MS);
    const { to } = most ?? own;
    if (to === undefined) return this.#finish(pass);
    Object.assign(pass, { from: to, tries: 0 });
  }

  /** No majority has the same rows: once for each pass, and where no node can settle it, once. */
  #sayOpen({ group, found }: Pass, isOpen: boolean, fields: object): void {
    const { voters } = group.raft.configuration;
    if (isOpen && !found.has('unsettled')) this.#options.log('warn', UNSETTLED, { group: group.id, ...fields, voters });
    if (!isOpen && !this.#undecided.has(group))
      this.#options.log('error', UNDECIDED, { group: group.id, ...fields, voters });
    if (!isOpen) this.#undecided.add(group);
    found.add(isOpen ? 'unsettled' : 'undecided');
  }

  #tell({ group, found }: Pass, node: number, question: RowQuestion): void {
    const { nodeId, replication, differs, log } = this.#options;
    found.add('different');
    if (node === nodeId) return differs(group);
    log('warn', DIFFERS, { group: group.id, node, index: question.index });
    replication.compare(node, group, encodeRowQuestion({ ...question, op: OP_DIFFERS }), () => undefined);
  }

  #finish({ group, failed, away, found }: Pass): void {
    this.#counters.comparisons++;
    this.#failedMs.delete(group);
    const isOpen = found.has('unsettled');
    if (!isOpen && !found.has('undecided')) this.#undecided.delete(group);
    const isWhole = failed.size === 0 && !isOpen && !found.has('different');
    this.#leave(isWhole ? this.#options.pace.pauseMs : LATER_MS, away);
  }

  /** Each try holds up the writes of its group, for nothing on a slow disk. */
  #leaveAlone(group: Group): void {
    const afterMs = Math.min(2 * (this.#failedMs.get(group) ?? LATER_MS / 2), LATER_MAX_MS);
    this.#failedMs.set(group, afterMs);
    this.#leave(afterMs);
  }

  /** The group's turn comes again then, or when one of those that were `away` is back. */
  #leave(afterMs: number, away: ReadonlySet<number> = NOBODY): void {
    if (this.#pass !== undefined) this.#due.set(this.#pass.group, { ms: this.#clockMs + afterMs, away });
    this.#pass = undefined;
  }
}

/** The digest that a majority of the voters has; when there is none, whether those without a digest could make one. */
function mostOf(
  digests: ReadonlyMap<number, Digest>,
  voters: readonly number[],
): readonly [most: Digest | undefined, isOpen: boolean] {
  const ofVoters = [...digests].flatMap(([node, digest]) => (voters.includes(node) ? [digest] : []));
  const haveIt = (one: Digest): number => ofVoters.filter((other) => areSame(one, other)).length;
  const most = Math.max(0, ...ofVoters.map(haveIt));
  const isMajority = (count: number): boolean => 2 * count > voters.length;
  const found = isMajority(most) ? ofVoters.find((one) => haveIt(one) === most) : undefined;
  return [found, isMajority(most + voters.length - ofVoters.length)];
}
