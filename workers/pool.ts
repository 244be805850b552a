/** Thread entry of the piscina pool: slow work on the object store. Many tasks wait for the network in one thread. */
import process from 'node:process';
import { move, transferableSymbol, valueSymbol, workerData } from 'piscina';
import type { ColdOp, ColdOutcome, ColdResults } from '../src/cold/ports.ts';
import { type Backend, type ColdWork, KeyedObjects, openStore, perform } from '../src/cold/store/perform.ts';
import { mergeChunks } from '../src/stream/cold/merge.ts';

// Node 20 is supported here for as long as this version of the SDK runs on it; its daily reminder is noise.
process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] = 'true';
const opening = openStore(workerData as Backend).then((store) => ({ store, keyed: new KeyedObjects(store) }));
// A store that cannot be opened is what each task answers.
opening.catch(() => undefined);

/** Named in src/cold/service/cold-service.ts. */
export async function cold({ task, keys }: ColdWork): Promise<unknown> {
  let outcome: ColdOutcome;
  try {
    const { store, keyed } = await opening;
    outcome = await perform({ store, objects: await keyed.by(keys), merge: mergeChunks }, task);
  } catch (error) {
    outcome = { ok: false, failure: 'unreachable', message: `the store cannot be opened: ${String(error)}` };
  }
  const buffers = outcome.ok ? buffersOf(outcome.value) : [];
  return buffers.length === 0 ? outcome : move({ [transferableSymbol]: buffers, [valueSymbol]: outcome });
}

/** Memory that goes to the other thread instead of being copied. */
function buffersOf(value: ColdResults[ColdOp]): ArrayBuffer[] {
  if (value instanceof Uint8Array) return [value.buffer];
  return Array.isArray(value) ? value.map((bytes: Uint8Array<ArrayBuffer>) => bytes.buffer) : [];
}
