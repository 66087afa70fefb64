import { Text, Timeline } from '@mantine/core'
import { duration, moment } from '../format.ts'

type Moment = { label: string; at: string | null; color?: string }

/** A timeline of an object with the duration of each step; events that have not happened are omitted. */
export function Moments({ moments }: { moments: Moment[] }) {
  const past = moments
    .flatMap(({ at, ...rest }) => (at === null ? [] : [{ ...rest, at }]))
    .toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at))
  return (
    <Timeline active={past.length - 1} bulletSize={14} lineWidth={2}>
      {past.map(({ label, at, color }, i) => (
        <Timeline.Item key={label} title={<Text size="sm">{label}</Text>} {...(color && { color })}>
          <Text size="xs" c="dimmed" component="div">
            <time dateTime={at}>{moment(at)}</time>
            {i > 0 && `, after ${duration(Date.parse(at) - Date.parse(past[i - 1]!.at))}`}
          </Text>
        </Timeline.Item>
      ))}
    </Timeline>
  )
}
