import { CONFIG, type Verb, asking, openCluster, seconds } from '../context.ts';
import { Failure, Interrupted } from '../../nodes/failure.ts';
import { findings } from '../../nodes/findings.ts';
import type { ClusterSnapshot } from '../../nodes/cluster-snapshot.ts';
import { LiveScreen } from '../live-screen.ts';
import { OUTPUT, wantsJson } from '../output.ts';
import { renderStatus, statusJson } from '../status-table.ts';
import { pause } from '../waiting.ts';

export const status: Verb = {
  name: 'status',
  about: 'a table of the nodes; always ends with 0, what cannot be reached is said in it',
  examples: ['millracectl status --config /etc/millrace/cluster.toml', 'millracectl status --json'],
  onlyShows: true,
  flags: {
    config: CONFIG,
    ...OUTPUT,
    watch: { kind: 'switch', about: 'again and again in place, until Ctrl-C' },
    'interval-secs': seconds(2, 'pause between two looks of --watch'),
    ...asking(),
  },
  run: async (context) => {
    const { values, signal, out, say } = context;
    const cluster = await openCluster(context);
    const isJson = wantsJson(values);
    const isWatching = values.isSet('watch');
    const linesOf = (snapshot: ClusterSnapshot, columns: number): string[] =>
      isJson
        ? [JSON.stringify(statusJson(cluster.nodes, snapshot), null, isWatching ? 0 : 2)]
        : renderStatus(cluster.nodes, snapshot, columns);
    if (!isWatching) {
      for (const line of linesOf(await cluster.snapshot(), out.columns)) say(line);
      return;
    }
    const screen = out.isTerminal && !isJson ? new LiveScreen(out) : undefined;
    try {
      for (;;) {
        const snapshot = await cluster.snapshot();
        const heading = `${new Date().toISOString()}   Ctrl-C ends`;
        if (screen !== undefined) screen.draw((columns) => [heading, '', ...linesOf(snapshot, columns)]);
        else say([...linesOf(snapshot, Infinity), ...(isJson ? [] : [''])].join('\n'));
        await pause(values.ms('interval-secs'), signal);
      }
    } catch (error) {
      // Ctrl-C is how a watch ends.
      if (!(error instanceof Interrupted)) throw error;
    } finally {
      screen?.close();
    }
  },
};

/** One look and an exit code, for scripts and probes. */
export const health: Verb = {
  name: 'health',
  about: 'look once and say what is wrong: 0 when requests are served everywhere, 1 when some fail or wait',
  examples: ['millracectl health', 'millracectl health --json'],
  onlyShows: true,
  flags: { config: CONFIG, ...OUTPUT, ...asking(5) },
  run: async (context) => {
    const { values, say } = context;
    const cluster = await openCluster(context);
    const found = findings(cluster.nodes, await cluster.snapshot());
    const bad = found.filter(({ severity }) => severity === 'bad').map(({ text }) => text);
    const healthy = bad.length === 0;
    if (wantsJson(values))
      say(JSON.stringify({ healthy, findings: found.map(({ severity, text }) => ({ severity, text })) }));
    else for (const { severity, text } of found) if (severity !== 'bad') say(text);
    if (!healthy) throw new Failure(`not healthy: ${bad.join('; ')}`);
    if (!wantsJson(values)) say('healthy');
  },
};
