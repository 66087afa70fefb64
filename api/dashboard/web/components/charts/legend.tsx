import { Anchor, ColorSwatch, Group, Text } from '@mantine/core'
import { Link } from 'wouter'
import { colorVariable } from './time-chart.tsx'

type LegendEntry = { name: string; color: string; value: string; href?: string }

/** The series of a chart with their totals; entries with an address are links. */
export function Legend({ entries }: { entries: readonly LegendEntry[] }) {
  return (
    <Group component="ul" gap="md" m={0} p={0} style={{ listStyle: 'none' }}>
      {entries.map(({ name, color, value, href }) => (
        <Group component="li" key={name} gap={6} wrap="nowrap">
          <ColorSwatch component="span" color={colorVariable(color)} size={10} aria-hidden />
          <Text size="xs">
            {href === undefined ? (
              name
            ) : (
              <Anchor component={Link} href={href} inherit>
                {name}
              </Anchor>
            )}{' '}
            <Text span inherit c="dimmed" className="numeric">
              {value}
            </Text>
          </Text>
        </Group>
      ))}
    </Group>
  )
}
