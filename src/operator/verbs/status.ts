import process from 'node:process';
import { CONFIG, type Verb, asking, openCluster, seconds } from '../context.ts';
import { Interrupted } from '../failure.ts';
import { renderStatus, statusJson } from '../status-table.ts';
import { pause } from '../waiting.ts';

const CLEAR_SCREEN = '\u001b[2J';
const HOME = '\u001b[H';
const CLEAR_LINE_END = '\u001b[K';
const CLEAR_BELOW = '\u001b[J';

export const status: Verb = {
  name: 'status',
  about: 'a table of the nodes; always ends with 0, what cannot be reached is said in it',
  flags: {
    config: CONFIG,
    json: { kind: 'switch', about: 'as JSON, for programs' },
    watch: { kind: 'switch', about: 'again and again in place, until Ctrl-C' },
    'interval-secs': seconds(2, 'pause between two looks of --watch'),
    ...asking(),
  },
  run: async (context) => {
    const { values, signal } = context;
    const cluster = openCluster(context);
    const isJson = values.isSet('json');
    const isWatching = values.isSet('watch');
    const inPlace = isWatching && !isJson && process.stdout.isTTY;
    if (inPlace) process.stdout.write(CLEAR_SCREEN);
    for (;;) {
      try {
        const sample = await cluster.sample();
        if (isJson) context.say(JSON.stringify(statusJson(cluster.nodes, sample), null, isWatching ? 0 : 2));
        else {
          const text = renderStatus(cluster.nodes, sample);
          process.stdout.write(inPlace ? overwriting(text) : isWatching ? `${text}\n` : text);
        }
        if (!isWatching) return;
        await pause(values.ms('interval-secs'), signal);
      } catch (error) {
        // Ctrl-C is how a watch ends.
        if (isWatching && error instanceof Interrupted) return;
        throw error;
      }
    }
  },
};

/** Without a flicker: each line replaces the one that was there. */
function overwriting(text: string): string {
  const lines = [`${new Date().toISOString()}   Ctrl-C ends`, '', ...text.split('\n')];
  return HOME + lines.map((line) => line + CLEAR_LINE_END).join('\n') + CLEAR_BELOW;
}
