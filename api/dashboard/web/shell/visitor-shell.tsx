import { Anchor, Box, Center, Group, Paper } from '@mantine/core'
import type { ReactNode } from 'react'
import { OutageNotice } from '../components/outage.tsx'
import { Brand } from './brand.tsx'
import { SchemeSwitch } from './scheme-switch.tsx'

/** The layout of the pages outside of an organisation: one centred card. */
export function VisitorShell({ children }: { children: ReactNode }) {
  return (
    <Box mih="100vh">
      <Group component="header" justify="space-between" px="md" py="sm">
        <Brand />
        <Group gap="sm" wrap="nowrap">
          <Anchor href="/docs/" size="sm">
            Documentation
          </Anchor>
          <SchemeSwitch />
        </Group>
      </Group>
      <Center component="main" px="md" pt="6vh" pb="xl">
        <Paper withBorder p="xl" w="100%" maw={440}>
          <OutageNotice />
          {children}
        </Paper>
      </Center>
    </Box>
  )
}
