/** Two responders for each result of the CORS policy: one for HEAD and one for everything else. */
import type { CorsBlocks, CorsPolicy } from './cors.ts';
import type { ReadCache } from './contract.ts';
import { Responder } from './respond.ts';
import type { Unsent } from './unsent.ts';

interface Pair {
  readonly body: Responder;
  readonly head: Responder;
}

export class Responders {
  readonly #cors: CorsPolicy;
  readonly #unsent: Unsent;
  readonly #readCache: ReadCache;
  /** As long as the policy keeps the blocks. */
  readonly #pairs = new WeakMap<CorsBlocks, Pair>();
  /** When everybody gets the same, neither the origin nor a map is needed. */
  readonly #only: Pair | undefined;
  /** For requests that name no origin, which is all but those of browsers. */
  readonly #none: Pair;

  constructor(cors: CorsPolicy, unsent: Unsent, readCache: ReadCache) {
    this.#readCache = readCache;
    this.#cors = cors;
    this.#unsent = unsent;
    this.#none = this.#pairOf(cors.blocksFor(''));
    this.#only = cors.readsOrigin ? undefined : this.#none;
  }

  for(origin: string, headOnly: boolean): Responder {
    const pair = this.#only ?? (origin === '' ? this.#none : this.#pairOf(this.#cors.blocksFor(origin)));
    return headOnly ? pair.head : pair.body;
  }

  #pairOf(blocks: CorsBlocks): Pair {
    const known = this.#pairs.get(blocks);
    if (known !== undefined) return known;
    const pair = {
      body: new Responder(blocks, false, this.#unsent, this.#readCache),
      head: new Responder(blocks, true, this.#unsent, this.#readCache),
    };
    this.#pairs.set(blocks, pair);
    return pair;
  }
}
