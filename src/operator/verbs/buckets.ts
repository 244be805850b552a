import { CLIENT_FLAGS, type Verb, openStreams } from '../context.ts';
import { OUTPUT, formatTable, printable, wantsJson } from '../output.ts';
import { formatBytes } from '../findings.ts';
import { listBuckets } from '../streams/listing.ts';

const COLUMNS = [{ head: 'bucket' }, { head: 'streams', isNumber: true }, { head: 'size', isNumber: true }] as const;

export const bucketLs: Verb = {
  name: 'bucket ls',
  about: 'list the buckets that hold streams, as the node that answers knows them',
  examples: ['millracectl bucket ls', 'millracectl bucket ls --output json'],
  onlyShows: true,
  flags: { output: OUTPUT, ...CLIENT_FLAGS },
  run: async (context) => {
    const buckets = await listBuckets(await openStreams(context));
    if (wantsJson(context.values)) {
      const all = buckets.map(({ bucket, raw }) => ({ bucket, ...raw }));
      return context.say(JSON.stringify(all));
    }
    const rows = buckets.map(({ bucket, streams, retainedBytes }) => {
      return [printable(bucket), String(streams), formatBytes(retainedBytes)];
    });
    for (const line of formatTable(COLUMNS, rows)) context.say(line);
  },
};
