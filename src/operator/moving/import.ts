/** One stream after the other from a source into a cluster. A run that was killed is finished by repeating it. */
import { batchesOf } from '../streams/records.ts';
import type { StreamClient } from '../streams/stream-client.ts';
import type { NamedStream } from '../streams/stream-name.ts';
import { type ImportSource, type Unit, piecesOfSize } from './import-source.ts';
import { ImportTarget } from './import-target.ts';

export interface Imported {
  /** In records or bytes. */
  readonly brought: number;
  readonly before: number;
  readonly isClosed: boolean;
}

/** `tell` is told the position after every write. */
export async function importStream(
  client: StreamClient,
  name: NamedStream,
  source: ImportSource,
  tell: (position: number) => void,
): Promise<Imported> {
  const target = await ImportTarget.open(client, name, source);
  const before = target.position;
  let at = before;
  const reading = source.read(at);
  try {
    for (;;) {
      const next = await reading.next();
      if (next.done === true) {
        if (next.value) await target.close();
        return { brought: target.position - before, before, isClosed: next.value };
      }
      for (const batch of requestsOf(next.value, source.isJson)) {
        await target.put(batch, at);
        at += source.isJson ? batch.length : batch.reduce((bytes, unit) => bytes + unit.length, 0);
        tell(at);
      }
    }
  } finally {
    await reading.return(false);
  }
}

function* requestsOf(units: readonly Unit[], isJson: boolean): Generator<readonly Unit[], void> {
  if (isJson) yield* batchesOf(units);
  else for (const unit of units) for (const piece of piecesOfSize(unit)) yield [piece];
}
