// A small application on go-driver v2: measurements of devices. It does the same over HTTP/1.1 and
// over HTTP/2 in cleartext. Run with PELLUCID_URL, PELLUCID_USER and PELLUCID_PASSWORD.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/arangodb/go-driver/v2/arangodb"
	"github.com/arangodb/go-driver/v2/arangodb/shared"
	"github.com/arangodb/go-driver/v2/connection"
)

type measurement struct {
	Key    string  `json:"_key,omitempty"`
	Rev    string  `json:"_rev,omitempty"`
	Device string  `json:"device"`
	Number int     `json:"number"`
	Value  float64 `json:"value"`
}

type bindings = map[string]interface{}

var ctx = context.Background()

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func check(holds bool, what string, seen ...interface{}) {
	if !holds {
		panic(fmt.Sprint(what, ": ", seen))
	}
}

func fails(err error, code, number int) {
	is, found := shared.IsArangoError(err)
	check(is && found.Code == code && found.ErrorNum == number, "another error", code, number, err)
}

func ofHTTP1() connection.Connection {
	endpoint := connection.NewRoundRobinEndpoints([]string{os.Getenv("PELLUCID_URL")})
	return connection.NewHttpConnection(connection.DefaultHTTPConfigurationWrapper(endpoint, true))
}

func ofHTTP2() connection.Connection {
	endpoint := connection.NewRoundRobinEndpoints([]string{os.Getenv("PELLUCID_URL")})
	return connection.NewHttp2Connection(connection.DefaultHTTP2ConfigurationWrapper(endpoint, true))
}

// databases makes an empty database of this name over Basic, and reaches it over a token.
func databases(name string, connect func() connection.Connection) (arangodb.Database, func()) {
	user, password := os.Getenv("PELLUCID_USER"), os.Getenv("PELLUCID_PASSWORD")
	basic := connect()
	must(basic.SetAuthentication(connection.NewBasicAuth(user, password)))
	system := arangodb.NewClient(basic)
	version, err := system.Version(ctx)
	must(err)
	check(version.Server == "arango", "another server", version)
	role, err := system.ServerRole(ctx)
	must(err)
	check(role == arangodb.ServerRoleSingle, "another role", role)

	stranger := connect()
	must(stranger.SetAuthentication(connection.NewBasicAuth(user, "wrong")))
	_, err = arangodb.NewClient(stranger).Databases(ctx)
	check(shared.IsUnauthorized(err), "not refused", err)

	exists, err := system.DatabaseExists(ctx, name)
	must(err)
	if exists {
		old, err := system.GetDatabase(ctx, name, nil)
		must(err)
		must(old.Remove(ctx))
	}
	_, err = system.CreateDatabase(ctx, name, nil)
	must(err)
	_, err = system.CreateDatabase(ctx, name, nil)
	fails(err, 409, 1207)

	token := connection.NewJWTAuthWrapper(user, password)(connect())
	db, err := arangodb.NewClient(token).GetDatabase(ctx, name, nil)
	must(err)
	return db, func() { must(db.Remove(ctx)) }
}

func fill(db arangodb.Database) arangodb.Collection {
	collection, err := db.CreateCollectionV2(ctx, "measurements", nil)
	must(err)
	_, err = db.CreateCollectionV2(ctx, "measurements", nil)
	fails(err, 409, 1207)
	isUnique := true
	options := arangodb.CreatePersistentIndexOptions{Name: "byNumber", Unique: &isUnique}
	for _, isExpectedNew := range []bool{true, false} {
		_, isNew, err := collection.EnsurePersistentIndex(ctx, []string{"number"}, &options)
		must(err)
		check(isNew == isExpectedNew, "made twice", isNew)
	}
	_, _, err = collection.EnsurePersistentIndex(ctx, []string{"device", "value"}, nil)
	must(err)
	indexes, err := collection.Indexes(ctx)
	must(err)
	check(len(indexes) == 3, "other indexes", indexes)

	var lines strings.Builder
	for n := 0; n < 1200; n++ {
		fmt.Fprintf(&lines, `{"_key":"m%d","device":"d%d","number":%d,"value":%d}`+"\n", n, n%6, n, n/6)
	}
	kind := arangodb.ImportDocumentTypeDocuments
	imported, err := collection.ImportDocuments(ctx, lines.String(), kind)
	must(err)
	check(imported.Created == 1200 && imported.Errors == 0, "imported", imported)
	count, err := collection.Count(ctx)
	must(err)
	check(count == 1200, "counted", count)
	return collection
}

func query(db arangodb.Database) {
	text := "FOR m IN @@all FILTER m.device == @device SORT m.value RETURN m"
	options := arangodb.QueryOptions{
		Count: true, BatchSize: 30, BindVars: bindings{"@all": "measurements", "device": "d2"},
	}
	cursor, err := db.Query(ctx, text, &options)
	must(err)
	check(cursor.Count() == 200, "counted", cursor.Count())
	for n := 0; n < 200; n++ {
		var found measurement
		_, err := cursor.ReadDocument(ctx, &found)
		must(err)
		check(found.Number == 6*n+2, "out of order", found)
	}
	check(!cursor.HasMore(), "more than all")
	must(cursor.Close())

	var numbers []int
	retry := arangodb.QueryOptions{BatchSize: 4, Options: arangodb.QuerySubOptions{AllowRetry: true}}
	batches, err := db.QueryBatch(ctx, "FOR i IN 1..10 RETURN i", &retry, &numbers)
	must(err)
	sum := len(numbers)
	for batches.HasMoreBatches() {
		must(batches.ReadNextBatch(ctx, &numbers))
		read := len(numbers)
		must(batches.RetryReadBatch(ctx, &numbers))
		check(len(numbers) == read, "another batch", numbers)
		sum += read
	}
	check(sum == 10, "values", sum)
	must(batches.Close())

	_, err = db.Query(ctx, "FOR m IN", nil)
	fails(err, 400, 1501)
	_, err = db.Query(ctx, "FOR m IN nowhere RETURN m", nil)
	fails(err, 404, 1203)
	must(db.ValidateQuery(ctx, "RETURN 1"))
	explained := bindings{"n": 7}
	plan, err := db.ExplainQuery(ctx, "FOR m IN measurements FILTER m.number == @n RETURN m", explained, nil)
	must(err)
	check(len(plan.Plan.NodesRaw) >= 3, "no plan", plan)
}

func documents(db arangodb.Database, collection arangodb.Collection) {
	var first, changed measurement
	_, err := collection.ReadDocument(ctx, "m1", &first)
	must(err)
	_, err = collection.ReadDocument(ctx, "nothing", &changed)
	check(shared.IsNotFound(err), "found", err)
	exists, err := collection.DocumentExists(ctx, "nothing")
	must(err)
	check(!exists, "exists")

	update := arangodb.CollectionDocumentUpdateOptions{NewObject: &changed}
	meta, err := collection.UpdateDocumentWithOptions(ctx, "m1", bindings{"value": 7}, &update)
	must(err)
	check(meta.OldRev == first.Rev && changed.Value == 7, "updated", meta, changed)
	stale := arangodb.CollectionDocumentUpdateOptions{IfMatch: first.Rev}
	_, err = collection.UpdateDocumentWithOptions(ctx, "m1", bindings{"value": 8}, &stale)
	fails(err, 412, 1200)
	ifMatch := arangodb.CollectionDocumentReadOptions{IfMatch: first.Rev}
	_, err = collection.ReadDocumentWithOptions(ctx, "m1", &changed, &ifMatch)
	fails(err, 412, 1200)
	_, err = collection.CreateDocument(ctx, measurement{Number: 2})
	fails(err, 409, 1210)

	several, err := collection.CreateDocuments(ctx, []measurement{
		{Key: "n1", Number: -1}, {Key: "n1", Number: -2},
	})
	must(err)
	one, err := several.Read()
	must(err)
	check(one.Key == "n1", "another key", one)
	_, err = several.Read()
	fails(err, 0, 1210)
	_, err = collection.DeleteDocument(ctx, "n1")
	must(err)
	_, err = collection.DeleteDocument(ctx, "n1")
	fails(err, 404, 1202)

	_, err = db.BeginTransaction(ctx, arangodb.TransactionCollections{Write: []string{"measurements"}}, nil)
	fails(err, 501, 9)
	must(collection.Truncate(ctx))
	must(collection.Remove(ctx))
}

func main() {
	connections := map[string]func() connection.Connection{"HTTP/1.1": ofHTTP1, "HTTP/2": ofHTTP2}
	for protocol, connect := range connections {
		db, drop := databases("measured-go", connect)
		collection := fill(db)
		query(db)
		documents(db, collection)
		drop()
		fmt.Println("go-driver over " + protocol + ": done")
	}
}
