/** Makes a directory that starts out of a single node's whose log is damaged. Asks no node. */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { threadEntry } from '../../threads/entry.ts';
import { Failure } from '../../nodes/failure.ts';
import { type Verb, textFlag } from '../context.ts';

/** Messages of the thread (workers/salvage.ts). */
type Told = { readonly line: string } | { readonly failed: string };

const DIR = textFlag('DIR', 'data directory of a single node that does not run', { required: true });
const NEW_DIR = textFlag('NEW-DIR', 'where the new one is made; empty, or not there', { required: true });

export const salvage: Verb = {
  name: 'salvage',
  about: "copy what can be read of a single node's damaged data directory, and say what is left out",
  words: ['from', 'to'],
  examples: ['millracectl salvage /var/lib/millrace /var/lib/millrace-salvaged'],
  flags: { from: DIR, to: NEW_DIR },
  run: async ({ values, say }) => {
    const [from, to] = [values.required('from'), values.required('to')];
    const worker = new Worker(threadEntry('salvage'), { workerData: { from, to } });
    let failed: string | undefined;
    worker.on('message', (told: Told) => {
      if ('line' in told) say(told.line);
      else failed = told.failed;
    });
    await once(worker, 'exit');
    if (failed !== undefined) throw new Failure(failed);
    say(`${to} starts with what is left; ${from} is as it was`);
  },
};
