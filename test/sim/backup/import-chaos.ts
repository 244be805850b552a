/**
 * The links' treatment of an import's commands: delayed frames eventually reach some node, long after their sender gave
 * up, and before others that were sent later. None of that may harm an import.
 */
import { decodeImportRows, encodeImportEnd } from '../../../src/protocol/import-command.ts';
import { NO_ORIGIN } from '../../../src/protocol/object-key.ts';
import { type Request, newRequest } from '../../../src/protocol/request.ts';
import { type Random, createRandom } from '../../support/random.ts';
import type { SimProcess } from '../process.ts';
import type { World } from '../world.ts';
import { COMMANDS } from '../../../src/protocol/operations.ts';

const LATE_MS = 20_000;
const OVERTAKES_MS = 50;
/** Maximum delay of a BEGIN after the ABORT that ends its attempt. */
const BEHIND_MS = 800;
/** Marks an END that overtakes its pieces, which no other END does. */
export const FORGED_PIECES = 1_000_000;
const NOTHING = new Uint8Array(0);

export class ImportChaos {
  readonly counts = { importsLate: 0, importsHung: 0, importsOvertaken: 0 };
  readonly #world: World;
  readonly #random: Random;
  readonly #chance: number;
  /** Pieces of earlier attempts, by number. */
  readonly #hung = new Map<number, { readonly token: string; readonly request: Request }>();

  /** The last one. */
  #begin: Request | undefined;

  constructor(world: World, chance: number) {
    this.#world = world;
    this.#chance = chance;
    this.#random = createRandom(world.options.seed * 83 + 43);
  }

  /** Before a request of an attempt is sent through the node; it is unique to the attempt. */
  onSend(request: Request, process: SimProcess): void {
    const random = this.#random;
    const { op } = request;
    if (op < COMMANDS.importBegin.number || op > COMMANDS.importAbort.number) return;
    if (op === COMMANDS.importRows.number) this.#rows(request, process);
    else if (op === COMMANDS.importBegin.number) this.#begin = request;
    else if (op === COMMANDS.importAbort.number && this.#begin !== undefined && random.chance(2 * this.#chance))
      this.#deliver(this.#begin, random.int(1, BEHIND_MS));
    if (this.#world.faulty && random.chance(this.#chance)) this.#deliver(request, random.int(1, LATE_MS));
  }

  #rows(request: Request, process: SimProcess): void {
    const random = this.#random;
    const piece = decodeImportRows(request.command.payload ?? NOTHING);
    if (piece === undefined) return;
    const { token, seq } = piece;
    // Before the piece that takes its place.
    const hung = this.#hung.get(seq);
    if (hung !== undefined && hung.token !== token && random.chance(Math.min(0.5, 5 * this.#chance))) {
      this.counts.importsHung++;
      process.request(hung.request, false, () => undefined);
    }
    this.#hung.set(seq, { token, request });
    if (this.#begin !== undefined && random.chance(this.#chance / 2))
      this.#deliver(this.#begin, random.int(1, BEHIND_MS));
    if (this.#world.faulty && random.chance(this.#chance / 4)) this.#overtake(request, token);
  }

  #deliver(request: Request, waitMs: number): void {
    this.counts.importsLate++;
    const node = this.#random.pick(this.#world.nodes);
    this.#world.queue.after(waitMs, () => node.process?.request(request, false, () => undefined));
  }

  /** An END before the pieces that it ends. */
  #overtake({ group }: Request, token: string): void {
    this.counts.importsOvertaken++;
    const end = newRequest();
    end.op = COMMANDS.importEnd.number;
    end.group = group;
    end.command.kind = COMMANDS.importEnd.number;
    end.command.payload = encodeImportEnd({
      token,
      pieces: FORGED_PIECES,
      rows: 0,
      nextIncarnation: 1,
      hotBytes: 0,
      coldBytes: 0,
      objects: 0,
      objectBytes: 0,
      digest: new Uint8Array(32),
      origin: NO_ORIGIN,
    });
    const node = this.#random.pick(this.#world.nodes);
    const waitMs = this.#random.int(0, OVERTAKES_MS);
    this.#world.queue.after(waitMs, () => node.process?.request(end, false, () => undefined));
  }
}
