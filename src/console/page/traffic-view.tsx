/** Plots over time, drawn by uPlot. Their values are also in words, for those who do not see them. */
import { useEffect, useRef, useState } from 'preact/hooks';
import UPlot from 'uplot';
import type { History } from '../model/history.ts';
import { PLOTS, type Plot } from '../model/plots.ts';
import { formatTime, formatValue } from '../model/units.ts';
import { useDesk } from './parts.tsx';

const HEIGHT = 180;
/** Beyond this a plot is a tangle; nodes with many cores have more mailboxes. */
const LINES_MAX = 24;
/** Colours that most colour-blind people can tell apart, on light and on dark (Okabe and Ito, a little lighter). */
const COLOURS = ['#0284c7', '#e69f00', '#10a37f', '#d55e00', '#b06fb8', '#56b4e9', '#8a8a00', '#7f7f7f'];
const DASHES: readonly number[][] = [[], [6, 3], [2, 2]];
/** Bytes are counted in powers of two; less than one byte is none. */
const BYTE_STEPS = Array.from({ length: 50 }, (_, i) => 2 ** i);
/** Room for the longest value of an axis: "1,023 KiB/s". */
const AXIS_PX = 84;
const TIMES_APART_PX = 80;

export interface PlotProps {
  readonly plot: Plot;
  readonly history: History;
  /** How much of it is shown. */
  readonly seconds: number;
}

function TimePlot({ plot, history, seconds }: PlotProps) {
  const place = useRef<HTMLDivElement>(null);
  const prefix = `${plot.id}/`;
  const names = history.names(prefix).slice(0, LINES_MAX);
  const labels = names.map((name) => name.slice(prefix.length));
  const key = names.join('\n');
  const drawn = useRef<UPlot | undefined>(undefined);
  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const make = (): void => {
      drawn.current?.destroy();
      const data = dataOf(history, names, seconds);
      drawn.current = new UPlot(optionsOf(plot, labels, element.clientWidth), data, element);
    };
    make();
    // The colours of axes are those of the theme.
    const resized = new ResizeObserver(() => drawn.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    addEventListener('themechange', make);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', make);
    return () => {
      resized.disconnect();
      removeEventListener('themechange', make);
      dark.removeEventListener('change', make);
      drawn.current?.destroy();
      drawn.current = undefined;
    };
  }, [key, plot, seconds]);
  useEffect(() => drawn.current?.setData(dataOf(history, names, seconds)));
  const latest = names.map((name, i) => `${labels[i]} ${formatValue(history.latest(name), plot.unit)}`);
  return (
    <figure class="plot">
      <figcaption>
        <h2>{plot.title}</h2>
        <p>{plot.about}</p>
      </figcaption>
      <div
        ref={place}
        role="img"
        aria-label={`${plot.title}: ${latest.length === 0 ? 'no values yet' : latest.join(', ')}`}
      />
    </figure>
  );
}

function dataOf(history: History, names: readonly string[], seconds: number): UPlot.AlignedData {
  const [times, ...columns] = history.window(names, seconds);
  return [[...times], ...columns.map((column) => [...column])];
}

function optionsOf({ unit }: Plot, labels: readonly string[], width: number): UPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const [ink, line] = [style.getPropertyValue('--plot-ink'), style.getPropertyValue('--plot-line')];
  const isBytes = unit === 'bytes' || unit === 'bytes per second';
  const lines = linesOf(labels);
  const axis: UPlot.Axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
  return {
    width: Math.max(width, 100),
    height: HEIGHT,
    cursor: { y: false, sync: { key: 'traffic' } },
    legend: { live: true },
    scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [
      { ...axis, space: TIMES_APART_PX, values: (_, times) => timesOf(times) },
      {
        ...axis,
        size: AXIS_PX,
        ...(isBytes ? { incrs: BYTE_STEPS } : {}),
        values: (_, values) => values.map((value) => formatValue(value, unit)),
      },
    ],
    series: [
      { label: 'UTC', value: (_: UPlot, time: number | null) => (time === null ? '–' : formatTime(1000 * time)) },
      ...labels.map((label, i) => ({
        label,
        stroke: lines[i]?.stroke ?? 'gray',
        dash: lines[i]?.dash ?? [],
        width: 1.5,
        points: { show: false },
        value: (_: UPlot, value: number | null) => formatValue(value, unit),
      })),
    ],
  };
}

/** The time of day, or date and minute where a plot has more than a day. */
function timesOf(times: readonly number[]): string[] {
  const isLong = (times.at(-1) ?? 0) - (times[0] ?? 0) > DAY_SECONDS;
  return times.map((time) => (isLong ? formatTime(1000 * time).slice(5, 16) : formatTime(1000 * time).slice(11)));
}

interface LineStyle {
  readonly stroke: string;
  readonly dash: number[];
}

/** A node has its colour in every plot, and dashes tell its lines apart. */
function linesOf(labels: readonly string[]): LineStyle[] {
  const seen = new Map<number, number>();
  return labels.map((label, i) => {
    const node = /^node (\d+)/.exec(label)?.[1];
    const colour = (node === undefined ? i : Number(node) - 1) % COLOURS.length;
    const line = seen.get(colour) ?? 0;
    seen.set(colour, line + 1);
    return {
      stroke: COLOURS[colour] ?? 'gray',
      dash: DASHES[line % DASHES.length] ?? [],
    };
  });
}

const DAY_SECONDS = 24 * 60 * 60;
const WINDOWS = [
  [5 * 60, '5 min'],
  [15 * 60, '15 min'],
  [60 * 60, '1 h'],
  [6 * 60 * 60, '6 h'],
  [DAY_SECONDS, '1 d'],
  [Infinity, 'All'],
] as const;

export function TrafficView() {
  const { watch } = useDesk();
  const [seconds, setSeconds] = useState<number>(15 * 60);
  const { sinceMs } = watch.history;
  return (
    <>
      <div class="buttons" role="group" aria-label="How much is shown">
        {WINDOWS.map(([value, label]) => (
          <button key={value} type="button" aria-pressed={value === seconds} onClick={() => setSeconds(value)}>
            {label}
          </button>
        ))}
      </div>
      <p class="hint">
        {sinceMs === undefined ? '' : `Since ${formatTime(sinceMs)} UTC. `}
        Nodes keep this from their start on, coarser as it grows older; this page adds what it sees.
      </p>
      <div class="plots">
        {PLOTS.map((plot) => (
          <TimePlot key={plot.id} plot={plot} history={watch.history} seconds={seconds} />
        ))}
      </div>
    </>
  );
}
