import { useState } from 'preact/hooks';
import { PLOTS } from '../model/plots.ts';
import { useDesk } from './parts.tsx';
import { TimePlot } from './plot.tsx';

const WINDOWS = [
  [5 * 60, '5 min'],
  [15 * 60, '15 min'],
  [60 * 60, '1 h'],
  [6 * 60 * 60, '6 h'],
] as const;

export function TrafficView() {
  const { watch } = useDesk();
  const [seconds, setSeconds] = useState<number>(15 * 60);
  return (
    <>
      <div class="buttons" role="group" aria-label="How much is shown">
        {WINDOWS.map(([value, label]) => (
          <button key={value} type="button" aria-pressed={value === seconds} onClick={() => setSeconds(value)}>
            {label}
          </button>
        ))}
      </div>
      <p class="hint">Kept in this page since it was opened, six hours at most.</p>
      <div class="plots">
        {PLOTS.map((plot) => (
          <TimePlot key={plot.id} plot={plot} history={watch.history} seconds={seconds} />
        ))}
      </div>
    </>
  );
}
