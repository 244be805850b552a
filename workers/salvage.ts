/** Thread entry of `millracectl salvage`: the store is a package of the node, and LMDB may end its thread. */
import { parentPort, workerData } from 'node:worker_threads';
import { caughtMessage } from '../src/base/caught.ts';
import { salvage } from '../src/server/salvage.ts';

const { from, to } = workerData as { readonly from: string; readonly to: string };
try {
  await salvage(from, to, (line) => parentPort?.postMessage({ line }));
} catch (error) {
  parentPort?.postMessage({ failed: caughtMessage(error) });
}
