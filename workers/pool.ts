/** Thread entry of the piscina pool: slow work on the object store. Many tasks wait on the network in one thread at once. */
import process from 'node:process';
import { move, transferableSymbol, valueSymbol, workerData } from 'piscina';
import { type Backend, openStore } from '../src/cold/backend.ts';
import { type ColdOutcome, type ColdTask, perform } from '../src/cold/tasks.ts';

/** Ends with the thread; each operation has a bound of its own. */
const { signal } = new AbortController();
// Node 20 is supported here for as long as this version of the SDK runs on it; its daily reminder helps nobody.
process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] = 'true';
const opening = openStore(workerData as Backend);
// A store that cannot be opened is what each task answers.
opening.catch(() => undefined);

/** Named in src/cold/pool.ts. */
export async function cold(task: ColdTask): Promise<unknown> {
  let outcome: ColdOutcome<ColdTask['op']>;
  try {
    outcome = await perform(await opening, task, signal);
  } catch (error) {
    outcome = { ok: false, failure: 'unreachable', message: `the store cannot be opened: ${String(error)}` };
  }
  const value = outcome.ok ? outcome.value : undefined;
  if (!(value instanceof Uint8Array)) return outcome;
  return move({ [transferableSymbol]: value.buffer, [valueSymbol]: outcome });
}
