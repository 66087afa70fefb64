import { Avatar, Button, Menu, Text } from '@mantine/core'
import { notifications } from '@mantine/notifications'
import { IconChevronDown, IconClock, IconLogout, IconSettings, IconShieldCog } from '@tabler/icons-react'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link, useLocation } from 'wouter'
import type { Me } from '../../wire/person.ts'
import { callAuth } from '../api.ts'
import { chooseZone, localZoneName, useZone } from '../time-zone.ts'

/** The menu of the signed-in user: account, operator area (for operators), sign out. */
export function PersonMenu({ me }: { me: Me }) {
  const queries = useQueryClient()
  const zone = useZone()
  const [, navigate] = useLocation()
  const signOut = useMutation({
    mutationFn: () => callAuth('sign-out', {}),
    onSuccess: () => {
      queries.clear()
      navigate('/sign-in')
    },
    onError: error => notifications.show({ color: 'red', title: 'You are still signed in', message: error.message }),
  })
  return (
    <Menu position="bottom-end" withArrow>
      <Menu.Target>
        <Button variant="subtle" color="gray" px={6} rightSection={<IconChevronDown size={14} aria-hidden />}>
          <Avatar size={26} name={me.name} aria-hidden />
          <span className="visually-hidden">Account of {me.name}</span>
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>
          <Text size="sm" fw={600}>
            {me.name}
          </Text>
          <Text size="xs" c="dimmed">
            {me.email}
          </Text>
        </Menu.Label>
        <Menu.Divider />
        <Menu.Item component={Link} href="/account" leftSection={<IconSettings size={16} aria-hidden />}>
          Account
        </Menu.Item>
        {me.operator && (
          <Menu.Item component={Link} href="/operator" leftSection={<IconShieldCog size={16} aria-hidden />}>
            Operator area
          </Menu.Item>
        )}
        <Menu.Item
          closeMenuOnClick={false}
          onClick={() => chooseZone(zone === 'utc' ? 'local' : 'utc')}
          leftSection={<IconClock size={16} aria-hidden />}
        >
          Show times in {zone === 'utc' ? localZoneName() : 'UTC'}
        </Menu.Item>
        <Menu.Item onClick={() => signOut.mutate()} leftSection={<IconLogout size={16} aria-hidden />}>
          Sign out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  )
}
