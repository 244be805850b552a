/** Lines of JSON as bodies of appends: arrays of records, as they were written. */
import { Failure, reasonOf } from '../../nodes/failure.ts';

/** An append stays well below what a request may have (32 MiB, 100,000 records), so that others get their turn. */
export const BODY_BYTES_MAX = 1024 * 1024;
export const BODY_RECORDS_MAX = 10_000;

const [OPEN, CLOSE, COMMA] = [Buffer.from('['), Buffer.from(']'), Buffer.from(',')];

export interface RecordBody {
  readonly bytes: Buffer;
  readonly count: number;
}

/** An array with these records. */
export function bodyOf(records: readonly Buffer[]): Buffer {
  const parts = records.flatMap((record, i) => (i === 0 ? [record] : [COMMA, record]));
  return Buffer.concat([OPEN, ...parts, CLOSE]);
}

/** In groups of what is there, at most of the size of a body. */
export function* batchesOf(records: readonly Buffer[]): Generator<Buffer[], void> {
  let batch: Buffer[] = [];
  let bytes = 0;
  for (const record of records) {
    if (batch.length > 0 && (bytes + record.length > BODY_BYTES_MAX || batch.length >= BODY_RECORDS_MAX)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(record);
    bytes += record.length + 1;
  }
  if (batch.length > 0) yield batch;
}

/** Each line is looked at: a node would take `1,2` for two records. */
export async function* checkedRecords(
  lines: AsyncIterable<readonly Buffer[]>,
): AsyncGenerator<readonly Buffer[], void> {
  let count = 0;
  for await (const some of lines) {
    for (const line of some) {
      count++;
      try {
        JSON.parse(line.toString('utf8'));
      } catch (error) {
        throw new Failure(`record ${count} is not JSON: ${reasonOf(error)}`);
      }
    }
    yield some;
  }
}

export async function* recordBodies(lines: AsyncIterable<readonly Buffer[]>): AsyncGenerator<RecordBody, void> {
  for await (const some of checkedRecords(lines)) {
    for (const batch of batchesOf(some)) yield { bytes: bodyOf(batch), count: batch.length };
  }
}
