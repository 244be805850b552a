/** `health`: one look and an exit code, for scripts and probes. */
import { CONFIG, type Verb, asking, openCluster } from '../context.ts';
import { Failure } from '../../nodes/failure.ts';
import { findings } from '../../nodes/findings.ts';
import { OUTPUT, wantsJson } from '../output.ts';

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
