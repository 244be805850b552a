/**
 * Maintains the links of subscriptions on the node that drives them: streams that appear and match a pattern are linked
 * from their beginning, deleted streams lose their link, and recreated ones are processed from their beginning.
 */
import { SUBSCRIPTION_LINKS_MAX } from '../../base/limits.ts';
import type { Runtime } from '../../base/runtime.ts';
import type { ShardGateway } from '../../ports.ts';
import type { StreamTail } from '../state/decide.ts';
import type { Machine } from '../state/machine.ts';
import type { Command } from '../state/record.ts';
import type { Position, Subscription } from '../state/subscription.ts';
import type { Logger } from '../../logging/logger.ts';
import type { Directory } from './stream-directory.ts';
import { listMatching } from './listing.ts';
import { locate, reaches } from './locate.ts';
import type { Tails } from './tails.ts';

/** Delay before a sweep repeats what could not be recorded or listed. */
const AGAIN_MS = 1000;
/** Each lists streams and asks for tails, and the shards have clients to serve. */
const RECONCILED_AT_ONCE = 4;
/**
 * A linked stream that is missing, and whose end this node has not seen: deleted while no node drove the subscription,
 * or still to come from a backup, group by group. The link does no harm meanwhile.
 */
const MISSING_MS = 24 * 3_600_000;

export interface LinkerOptions {
  readonly gateway: ShardGateway;
  readonly machine: Machine;
  readonly directory: Directory;
  readonly tails: Tails;
  readonly append: (commands: readonly Command[]) => Promise<unknown>;
  readonly isDriving: () => boolean;
  readonly runtime: Pick<Runtime, 'nowMs' | 'monotonicMs' | 'setTimer'>;
  readonly log: Logger;
}

export class Linker {
  /** Events of streams that matched a pattern and exceeded the limit of links. */
  refused = 0;
  readonly #options: LinkerOptions;
  /** Links found since the last record, by subscription. */
  readonly #found = new Map<Subscription, Map<string, Position>>();
  /** Links whose record is in flight: until it is folded, every event of the stream finds them missing. */
  readonly #underWay = new Map<Subscription, ReadonlyMap<string, Position>>();
  #flushDue = false;
  readonly #missingSinceMs = new Map<string, number>();
  readonly #due = new Set<Subscription>();
  #reconciling = 0;

  constructor(options: LinkerOptions) {
    this.#options = options;
  }

  /** A stream moved: by an append, its creation or its end. */
  moved(path: string, tail: StreamTail, removed: boolean): void {
    if (!this.#options.isDriving()) return;
    const { directory } = this.#options;
    for (const sub of directory.of(path) ?? []) {
      const known = sub.links.get(path)?.incarnation ?? 0;
      const isOver = removed ? tail.incarnation >= known : tail.incarnation > known;
      if (known !== 0 && isOver) this.#renew(sub, path, known, removed ? undefined : tail);
    }
    if (!removed) for (const sub of directory.matching(path)) this.#link(sub, path, tail);
  }

  /** The tail of a linked stream became known on this node. A missing stream keeps its link for now: see `sweep`. */
  found(path: string, tail: StreamTail): void {
    if (tail.incarnation === 0 || !this.#options.isDriving()) return;
    this.#missingSinceMs.delete(path);
    this.moved(path, tail, false);
    const isBehind = [...(this.#options.directory.of(path) ?? [])].some(
      (sub) => sub.links.get(path)?.incarnation === tail.incarnation && isBeyond(sub, path, tail),
    );
    if (isBehind) void this.#confirmTail(path);
  }

  /** Looks for matching streams without a link, and for links without a stream. A few at once; the others wait. */
  reconcile(sub: Subscription): void {
    if (!this.#options.isDriving()) return;
    this.#due.add(sub);
    while (this.#reconciling < RECONCILED_AT_ONCE && this.#due.size > 0) void this.#reconcileNext();
  }

  async #reconcileNext(): Promise<void> {
    this.#reconciling++;
    for (const sub of this.#due) {
      this.#due.delete(sub);
      if (!this.#options.isDriving()) continue;
      try {
        await this.#reconcileOnce(sub);
      } catch (error) {
        this.#options.log.debug(
          { err: error, subscription: sub.id },
          'links could not be reconciled; it is tried again',
        );
        this.#reconcileLater(sub);
      }
    }
    this.#reconciling--;
  }

  #reconcileLater(sub: Subscription): void {
    this.#options.runtime.setTimer(AGAIN_MS, () => this.reconcile(sub));
  }

  async #reconcileOnce(sub: Subscription): Promise<void> {
    const { gateway, machine, tails } = this.#options;
    if (machine.subscriptions.get(sub.id) !== sub) return;
    await tails.known(sub.links.keys());
    for (const path of [...sub.links.keys()]) {
      if (tails.of(path)?.incarnation === 0) await tails.refresh(path);
      const tail = tails.of(path);
      if (tail === undefined) continue;
      this.found(path, tail);
      if (tail.incarnation === 0) this.#missing(sub, path);
    }
    if (sub.config.pattern === null) return;
    // One more than the limit shows whether some exceed it.
    const paths = await listMatching(gateway, sub.config.pattern, SUBSCRIPTION_LINKS_MAX + sub.links.size + 1);
    const missing = paths.filter((path) => !sub.links.has(path) && sub.matches(path));
    if (machine.subscriptions.get(sub.id) !== sub) return;
    await Promise.all(missing.map((path) => tails.want(path)));
    for (const path of missing) {
      const tail = tails.of(path);
      if (tail !== undefined && tail.incarnation !== 0) this.#link(sub, path, tail);
      tails.release(path);
    }
  }

  #link(sub: Subscription, path: string, { incarnation }: StreamTail): void {
    const { machine } = this.#options;
    if (this.#underWay.get(sub)?.has(path) === true) return;
    const links = this.#found.get(sub) ?? new Map<string, Position>();
    // Otherwise every event of the stream would be another record that changes nothing.
    if (sub.links.size + links.size >= SUBSCRIPTION_LINKS_MAX || machine.refusesLink(sub, path) !== undefined) {
      this.refused++;
      return;
    }
    // It did not exist when the subscription was created, so all of it is new.
    links.set(path, [path, incarnation, 0]);
    this.#found.set(sub, links);
    this.#flushSoon();
  }

  #flush(): void {
    this.#flushDue = false;
    for (const [sub, links] of [...this.#found]) {
      // One record at a time; further findings go into the next.
      if (this.#underWay.has(sub)) continue;
      this.#found.delete(sub);
      this.#underWay.set(sub, links);
      void this.#record(sub, [...links.values()]);
    }
  }

  async #record(sub: Subscription, links: readonly Position[]): Promise<void> {
    await this.#append(sub, [{ op: 'link', id: sub.id, at: this.#options.runtime.nowMs(), links }]);
    this.#underWay.delete(sub);
    if (this.#found.has(sub)) this.#flushSoon();
  }

  #flushSoon(): void {
    if (this.#flushDue) return;
    this.#flushDue = true;
    setImmediate(() => this.#flush());
  }

  #renew(sub: Subscription, path: string, incarnation: number, present: StreamTail | undefined): void {
    const about = { id: sub.id, at: this.#options.runtime.nowMs() };
    const commands: Command[] = [{ op: 'gone', ...about, path, incarnation }];
    if (present !== undefined) commands.push({ op: 'link', ...about, links: [[path, present.incarnation, 0]] });
    void this.#append(sub, commands);
  }

  #missing(sub: Subscription, path: string): void {
    const known = sub.links.get(path)?.incarnation ?? 0;
    if (known === 0) return;
    // Its end was seen while another node drove the subscription.
    if (this.#options.tails.ended(path) >= known) return this.#renew(sub, path, known, undefined);
    const clockMs = this.#options.runtime.monotonicMs();
    const sinceMs = this.#missingSinceMs.get(path);
    if (sinceMs !== undefined) {
      if (clockMs - sinceMs > MISSING_MS) void this.#confirmTail(path);
      return;
    }
    if (this.#missingSinceMs.size >= SUBSCRIPTION_LINKS_MAX) this.#missingSinceMs.clear();
    this.#missingSinceMs.set(path, clockMs);
  }

  /** This node's information about the stream may be old; the leader of its group knows. */
  async #confirmTail(path: string): Promise<void> {
    const { gateway, directory, runtime } = this.#options;
    for (const sub of [...(directory.of(path) ?? [])]) {
      const link = sub.links.get(path);
      if (link === undefined || link.incarnation === 0) continue;
      const { incarnation, acked } = link;
      try {
        if ((await reaches(gateway, path, acked)) === incarnation) continue;
        const tail = await locate(gateway, path);
        const about = { id: sub.id, at: runtime.nowMs(), path, incarnation };
        if (tail.incarnation !== incarnation)
          this.#renew(sub, path, incarnation, tail.incarnation === 0 ? undefined : tail);
        else if (tail.offset < acked) await this.#append(sub, [{ op: 'rewind', ...about, offset: tail.offset }]);
      } catch (error) {
        this.#options.log.debug({ err: error, path }, 'a linked stream could not be looked for; it is done again');
        this.#reconcileLater(sub);
      }
    }
  }

  async #append(sub: Subscription, commands: readonly Command[]): Promise<void> {
    try {
      await this.#options.append(commands);
    } catch (error) {
      this.#options.log.debug(
        { err: error, subscription: sub.id },
        'links could not be recorded; they are looked for again',
      );
      this.#reconcileLater(sub);
    }
  }
}

/** Whether the cursor is beyond the stream's tail. */
function isBeyond(sub: Subscription, path: string, tail: StreamTail): boolean {
  return (sub.links.get(path)?.acked ?? 0) > tail.offset;
}
