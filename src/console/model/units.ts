/** Numbers for people. */
import { formatBytes } from '../../nodes/findings.ts';
import type { PlotUnit } from './plots.ts';

export function formatValue(value: number | null | undefined, unit: PlotUnit): string {
  if (value === null || value === undefined) return '–';
  if (unit === 'bytes') return formatBytes(value);
  if (unit === 'bytes per second') return `${formatBytes(value)}/s`;
  if (unit === 'milliseconds') return `${formatNumber(value)} ms`;
  return unit === 'per second' ? `${formatNumber(value)}/s` : formatNumber(value);
}

/** Three digits that count, and thousands in groups. */
export function formatNumber(value: number): string {
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString('en');
  return size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** UTC, to the second. */
export function formatTime(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replace('T', ' ');
}
