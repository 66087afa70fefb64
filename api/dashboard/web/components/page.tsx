import { Box, Group, Stack, Text, Title } from '@mantine/core'
import { type ReactNode, useContext } from 'react'
import { PlaceContext } from '../session.tsx'
import { useTitle } from './title.ts'

/** What an address without a page shows. */
export function NotFound({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Page title={title} description={children}>
      {null}
    </Page>
  )
}

/** A page's heading, description and main actions; sets the document title. */
export function Page({
  title,
  id,
  description,
  actions,
  children,
}: {
  title: string
  /** The id of what the page is about, for the document title. */
  id?: string
  description?: ReactNode
  actions?: ReactNode
  children: ReactNode
}) {
  const place = useContext(PlaceContext)
  const titled = id === undefined ? title : `${title} ${id}`
  // An operator has pages of several organisations open.
  useTitle(place?.isOperatorView && place.name !== titled ? `${titled} · ${place.name}` : titled)
  return (
    <Stack gap="lg">
      <Group justify="space-between" align="flex-start" gap="sm">
        {/* The actions stay beside a long description, until there is too little room for both. */}
        <Box maw={720} flex="1 1 320px" miw={0}>
          <Title order={1}>{title}</Title>
          {description && (
            <Text c="dimmed" size="sm" mt={4}>
              {description}
            </Text>
          )}
        </Box>
        {actions && <Group gap="xs">{actions}</Group>}
      </Group>
      {children}
    </Stack>
  )
}
