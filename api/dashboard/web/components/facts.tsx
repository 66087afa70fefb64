import { Box, Paper, Text, Title } from '@mantine/core'
import { type ReactNode, useCallback } from 'react'

/** `wide`: takes a whole row. */
export type Fact = [label: string, value: ReactNode, wide?: 'wide']

/** The properties of an object as a description list; null values are omitted. */
export function Facts({ facts }: { facts: (Fact | null)[] }) {
  return (
    <Box
      component="dl"
      m={0}
      style={{ display: 'grid', gridTemplateColumns: 'repeat(auto-fill, minmax(150px, 1fr))', gap: '14px 24px' }}
    >
      {facts
        .filter(fact => fact !== null)
        .map(([label, value, wide]) => (
          <div key={label} style={{ minWidth: 0, ...(wide && { gridColumn: '1 / -1' }) }}>
            <Text component="dt" size="xs" c="dimmed">
              {label}
            </Text>
            <Text component="dd" size="sm" m={0} style={{ overflowWrap: 'anywhere' }}>
              {value}
            </Text>
          </div>
        ))}
    </Box>
  )
}

/** A card of a page. With an `id` it is scrolled to when the address names it. */
export function Section({ title, id, children }: { title: string; id?: string; children: ReactNode }) {
  const scrollTo = useCallback(
    (section: HTMLElement | null) => {
      if (id !== undefined && location.hash === `#${id}`) section?.scrollIntoView()
    },
    [id],
  )
  return (
    <Paper ref={scrollTo} component="section" id={id} aria-label={title} withBorder p="md" style={{ minWidth: 0 }}>
      <Title order={2} mb="sm">
        {title}
      </Title>
      {children}
    </Paper>
  )
}
