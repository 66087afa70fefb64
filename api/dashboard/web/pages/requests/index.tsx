import { Route, Switch } from 'wouter'
import { RequestPage } from './detail.tsx'
import { RequestList } from './list.tsx'

export default function Requests() {
  return (
    <Switch>
      <Route path="/:organisation/requests/:id">{({ id }) => <RequestPage key={id} id={id} />}</Route>
      <Route>
        <RequestList />
      </Route>
    </Switch>
  )
}
